// The programs on the pages run, and print what stands beside them.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { promisify } from 'node:util';

for (const page of ['../../docs/web.md', '../README.md']) {
  const text = await readFile(new URL(page, import.meta.url), 'utf8');
  const programs = [...text.matchAll(/^```js\n(.*?)^```/gms)].map(([, program]) => program);
  assert.ok(programs.length > 0);
  for (const [number, program] of programs.entries()) {
    test(`program ${number + 1} of ${page}`, async () => {
      const expected = [...program.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map(([, line]) => line.replaceAll("'", ''));
      const folder = new URL('..', import.meta.url); // where the package finds itself by its name
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { cwd: folder });
      assert.deepEqual(stdout.trim().split('\n'), expected);
    });
  }
}
