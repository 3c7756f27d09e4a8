// Browsers: the module is fetched from beside this file, and budgets lie in IndexedDB.

export const loadModule = () => WebAssembly.compileStreaming(fetch(new URL('./hushvec.wasm', import.meta.url)));

const TOTALS = 'totals';

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

// One transaction reads, adds and writes, and the browser runs those of all pages one after the other. It is complete when the charge is on disk.
export async function openStore(key, totalAfter, nothing) {
  const opening = indexedDB.open('hushvec', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TOTALS);
  const database = await settled(opening);
  const change = (next) =>
    new Promise((resolve, reject) => {
      const transaction = database.transaction(TOTALS, 'readwrite', { durability: 'strict' });
      const totals = transaction.objectStore(TOTALS);
      let total;
      let refusal;
      totals.get(key).onsuccess = ({ target }) => {
        try {
          total = next(target.result ?? nothing);
          totals.put(total, key);
        } catch (error) {
          refusal = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(total);
      transaction.onabort = () => reject(refusal ?? transaction.error);
    });
  return {
    read: async () => (await settled(database.transaction(TOTALS).objectStore(TOTALS).get(key))) ?? nothing,
    charge: (amounts) => change((total) => totalAfter(total, amounts)),
    reset: () => change(() => nothing),
    close: async () => database.close(),
  };
}
