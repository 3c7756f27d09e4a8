// With LocalMode itself, where LOCALMODE is the path of a bundle of @localmode/core; browser.test.js does the same in Chromium.
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import * as hv from 'hushvec';
import { checkLocalMode } from './localmode_checks.js';

const path = process.env.LOCALMODE;

test("LocalMode's models take the middleware", { skip: path === undefined && 'LOCALMODE names no bundle of @localmode/core' }, async () => {
  await checkLocalMode(hv, await import(pathToFileURL(path)));
});
