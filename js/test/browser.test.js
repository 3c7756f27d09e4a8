// The package in headless Chromium, where there is one: the same bits under a strict content security policy, and budgets in IndexedDB.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import * as hv from 'hushvec';

const CHROMIUM = ['chromium', 'chromium-browser', 'google-chrome'].find((name) => spawnSync(name, ['--version']).status === 0);
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-popup-blocking'];
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";
const TYPES = { js: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const TIMEOUT = 60000;

const SEEDS = 100;
const seeded = async (seed, mechanism) => {
  const row = Float32Array.from({ length: 3 * 17 }, (_, i) => Math.fround(((i * 37 + seed) % 101) / 50 - 1));
  return (await hv.privatize(row, { epsilon: 3, mechanism, dimension: 17, generator: hv.Generator.unsafeSeeded(seed) })).values;
};

// What the page runs, by the name in its address; `told` sends a value to the test.
const PAGE = `
  import * as hv from '/src/index.js';
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
      const channel = new BroadcastChannel('race');
      const ready = new Promise((resolve) => { channel.onmessage = resolve; });
      window.open('/?work=second');
      await ready;
      channel.postMessage('go');
      await this.race();
    },
    async second() {
      const channel = new BroadcastChannel('race');
      const go = new Promise((resolve) => { channel.onmessage = resolve; });
      channel.postMessage('ready');
      await go;
      await this.race();
    },
    async race() {
      const budget = await open();
      let won = 0;
      try {
        for (;;) { await budget.consume(1); won += 1; }
      } catch (error) {
        await told({ won, name: error.name });
      }
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
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    if (request.method === 'POST') {
      let text = '';
      for await (const part of request) text += part;
      response.end();
      heard(JSON.parse(text));
      return;
    }
    const content = path === '/' ? '<!doctype html><script type="module" src="/page.js"></script>' : path === '/page.js' ? PAGE
      : await readFile(new URL(`..${path}`, import.meta.url)).catch(() => undefined);
    const type = TYPES[path === '/' ? 'html' : path.split('.').pop()] ?? 'text/plain';
    response.writeHead(content === undefined ? 404 : 200, { 'Content-Type': type, 'Content-Security-Policy': POLICY });
    // What a bundler does by the "imports" of package.json.
    response.end(type === TYPES.js && content ? String(content).replace("'#platform'", "'./browser.js'") : content);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await body(`http://127.0.0.1:${server.address().port}`, (listener) => { heard = listener; });
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

test('two tabs that race for 200 charges get 200', options, () => serving(async (origin, listen) => {
  const ended = await visited(origin, listen, await profile(), 'first', 2);
  assert.equal(ended[0].won + ended[1].won, 200);
  assert.ok(ended.every(({ won, name }) => won > 0 && name === 'PrivacyBudgetExhaustedError'), JSON.stringify(ended));
}));

test('a browser that is killed in the midst of charges has lost none', options, () => serving(async (origin, listen) => {
  const folder = await profile();
  const told = (await visited(origin, listen, folder, 'charge', 50)).length;
  const [consumed] = await visited(origin, listen, folder, 'read', 1);
  assert.ok(consumed >= told && consumed <= told + 2, `${consumed} of ${told}`);
}));
