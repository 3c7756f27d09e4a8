// The package in headless Chromium, where there is one: the same bits under a strict content security policy, and budgets in IndexedDB.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import * as hv from 'hushvec';

const CHROMIUM = ['chromium', 'chromium-browser', 'google-chrome'].find((name) => spawnSync(name, ['--version']).status === 0);
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-popup-blocking'];
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";
const TYPES = { js: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const TIMEOUT = 60000;
const LOCALMODE = process.env.LOCALMODE;

const SEEDS = 100;
const RACES = 200;
const seeded = async (seed, mechanism) => {
  const row = Float32Array.from({ length: 3 * 17 }, (_, i) => Math.fround(((i * 37 + seed) % 101) / 50 - 1));
  return (await hv.privatize(row, { epsilon: 3, mechanism, dimension: 17, generator: hv.Generator.unsafeSeeded(seed) })).values;
};

// What the page runs, by the name in its address; `told` sends a value to the test.
const PAGE = `
  import * as hv from '/src/index.js';
  import { checkLocalMode } from '/test/localmode_checks.js';
  const told = (value) => fetch('/told' + location.search, { method: 'POST', body: JSON.stringify(value) });
  const seeded = ${seeded};
  const open = () => hv.createPrivacyBudget({ maxEpsilon: 200, persistKey: 'race' });
  const work = {
    async bits() {
      const found = [];
      for (const mechanism of ['gaussian', 'laplacian', 'privunit']) for (let seed = 0; seed < ${SEEDS}; seed += 1) found.push([...await seeded(seed, mechanism)]);
      await told(found);
    },
    async first() {
      window.open('/?work=second');
      await this.race();
    },
    second: () => work.race(),
    /** One charge fits each budget; both tabs ask for it at once, as soon as each knows that the other has it open. */
    async race() {
      const channel = new BroadcastChannel('race');
      const heard = new Set(), waiting = new Map();
      channel.onmessage = ({ data }) => { heard.add(data); waiting.get(data)?.(); };
      const other = async (number) => {
        const again = setInterval(() => channel.postMessage(number), 20);
        channel.postMessage(number);
        if (!heard.has(number)) await new Promise((resolve) => { waiting.set(number, resolve); });
        channel.postMessage(number);
        clearInterval(again);
      };
      const won = [];
      for (let number = 0; number < ${RACES}; number += 1) {
        const budget = await hv.createPrivacyBudget({ maxEpsilon: 1, persistKey: 'race ' + number });
        await other(number);
        won.push(await budget.consume(1).then(() => 'won', ({ name }) => name));
      }
      await told(won);
    },
    async localmode() {
      await checkLocalMode(hv, await import('/localmode.js'));
      await told('passed');
    },
    async charge() {
      const budget = await open();
      for (;;) { await budget.consume(1); await told(1); }
    },
    async read() {
      await told((await open()).consumed());
    },
  };
  try { await work[new URLSearchParams(location.search).get('work')](); } catch (error) { await told(String(error)); }`;

/** Starts a server, gives the address to `body`, and with it what pages tell. */
async function serving(body) {
  let heard = () => {};
  const files = LOCALMODE === undefined ? {} : { '/localmode.js': await readFile(LOCALMODE) }; // beside those of the package
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    if (request.method === 'POST') {
      let text = '';
      for await (const part of request) text += part;
      response.end();
      heard(JSON.parse(text));
      return;
    }
    const content = path === '/' ? '<!doctype html><script type="module" src="/page.js"></script>' : path === '/page.js' ? PAGE : files[path]
      ?? await readFile(new URL(`..${path}`, import.meta.url)).catch(() => undefined);
    const type = TYPES[path.endsWith('/') ? 'html' : path.split('.').pop()] ?? 'text/plain';
    response.writeHead(content === undefined ? 404 : 200, { 'Content-Type': type, 'Content-Security-Policy': POLICY });
    // What a bundler does by the "imports" of package.json.
    response.end(type === TYPES.js && content ? String(content).replace("'#platform'", "'./browser.js'") : content);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await body(`http://127.0.0.1:${server.address().port}`, (listener) => { heard = listener; }, files);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** The first `count` values that a page and those that it opens tell; then the browser is killed. */
const visited = (origin, listen, profile, page, count) => new Promise((resolve, reject) => {
  const all = [];
  const browser = spawn(CHROMIUM, [...FLAGS, `--user-data-dir=${profile}`, `${origin}/?work=${page}`], { stdio: 'ignore' });
  const timer = setTimeout(() => browser.kill('SIGKILL'), TIMEOUT);
  listen((value) => {
    all.push(value);
    if (all.length >= count) browser.kill('SIGKILL');
  });
  browser.on('close', () => {
    clearTimeout(timer);
    if (all.length >= count) resolve(all);
    else reject(new Error(`the browser told ${JSON.stringify(all)}`));
  });
});

const profile = () => mkdtemp(join(tmpdir(), 'hushvec-chromium-'));
const options = { skip: CHROMIUM === undefined && 'no chromium' };

test('the bits of a browser are those of Node', options, () => serving(async (origin, listen) => {
  const [found] = await visited(origin, listen, await profile(), 'bits', 1);
  const expected = [];
  for (const mechanism of ['gaussian', 'laplacian', 'privunit']) for (let seed = 0; seed < SEEDS; seed += 1) expected.push([...await seeded(seed, mechanism)]);
  assert.deepEqual(found, expected);
}));

test('of two tabs that race for a charge one gets it, 200 times', options, () => serving(async (origin, listen) => {
  const [first, second] = await visited(origin, listen, await profile(), 'first', 2);
  const ended = first.map((one, number) => [one, second[number]].sort());
  assert.deepEqual(ended, Array(RACES).fill(['PrivacyBudgetExhaustedError', 'won']));
}));

test("LocalMode's models take the middleware in a page", { skip: options.skip || (LOCALMODE === undefined && 'LOCALMODE names no bundle of @localmode/core') }, () => serving(async (origin, listen) => {
  assert.deepEqual(await visited(origin, listen, await profile(), 'localmode', 1), ['passed']);
}));

const ESBUILD = process.env.ESBUILD ?? ['node_modules/.bin/esbuild', 'build/npm/node_modules/.bin/esbuild'].find(existsSync);
test('a page that esbuild bundled runs under a strict policy, and the whole is at most 110 KB', { skip: options.skip || (ESBUILD === undefined && 'ESBUILD names no esbuild') }, () => serving(async (origin, listen, files) => {
  const folder = await mkdtemp(join(tmpdir(), 'hushvec-bundle-'));
  const root = fileURLToPath(new URL('..', import.meta.url));
  await writeFile(join(folder, 'app.js'), `import * as hv from ${JSON.stringify(join(root, 'src/index.js'))};
    const { receipt } = await hv.privatize([0.6, 0.8], { epsilon: 8 });
    await fetch('/told', { method: 'POST', body: JSON.stringify(hv.verifyReceipt(receipt).status) });`);
  const done = spawnSync(ESBUILD, [join(folder, 'app.js'), '--bundle', '--minify', '--format=esm', `--outfile=${join(folder, 'bundle.js')}`], { cwd: root });
  assert.equal(done.status, 0, String(done.stderr));
  files['/bundle/'] = '<!doctype html><script type="module" src="/bundle.js"></script>';
  files['/bundle.js'] = await readFile(join(folder, 'bundle.js'));
  files['/hushvec.wasm'] = await readFile(join(root, 'src/hushvec.wasm'));
  const bytes = gzipSync(files['/bundle.js'], { level: 9 }).length + gzipSync(files['/hushvec.wasm'], { level: 9 }).length;
  assert.ok(bytes <= 110_000, `${bytes} bytes`);
  assert.deepEqual(await visited(`${origin}/bundle`, listen, await profile(), 'bundle', 1), ['holds']);
}));

test('a browser that is killed in the midst of charges has lost none', options, () => serving(async (origin, listen) => {
  const folder = await profile();
  const told = (await visited(origin, listen, folder, 'charge', 50)).length;
  const [consumed] = await visited(origin, listen, folder, 'read', 1);
  assert.ok(consumed >= told && consumed <= told + 2, `${consumed} of ${told}`);
}));
