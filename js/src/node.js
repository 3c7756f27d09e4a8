// Node: the module and budgets lie in files.
import { open, readFile } from 'node:fs/promises';

export const loadModule = async () => WebAssembly.compile(await readFile(new URL('./hushvec.wasm', import.meta.url)));

// A line for each charge, in the order in which the system appended them, whoever wrote them: a charge counts if the total of those before it left
// room for it. So nobody locks the file, and a program that ends between two lines leaves nothing half done. Each line begins with its line break:
// what was cut off by a crash, before the charge was made, spoils no line but its own.
export async function openStore(path, totalAfter, nothing) {
  const file = await open(path, 'a+', 0o600);
  const append = async (entry) => {
    await file.write(`\n${JSON.stringify(entry)}`);
    await file.datasync();
  };

  // The total up to the entry with this id, or what it was refused by.
  async function totalOf(id) {
    let total = nothing;
    for (const line of (await readFile(path, 'utf8')).split('\n')) {
      let entry;
      try {
        entry = JSON.parse(line);
      } catch {
        continue;
      }
      try {
        total = entry.reset ? nothing : totalAfter(total, entry);
      } catch (error) {
        if (entry.id === id) throw error;
      }
      if (entry.id === id) return total;
    }
    return total;
  }

  return {
    read: () => totalOf(),
    async charge(amounts) {
      const id = crypto.randomUUID();
      await append({ id, ...amounts });
      return totalOf(id);
    },
    reset: () => append({ reset: true }),
    close: () => file.close(),
  };
}
