// SPDX-License-Identifier: Apache-2.0

// The landing page and the page of probes of simulated nodes, in Chromium: axe reports nothing, nothing is wider than the
// window, and what is wrong is on the first screen. `make page-test` runs it.
//
//   node page.js EXPORTER [--pictures=FOLDER] [SCENARIO...]

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import process from 'node:process';
import puppeteer from 'puppeteer-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// nodes are scenarios, and what the first screen must say of them.
const nodes = {
  'healthy': ['No problems found'],
  'port-down': ['mlx5_3', 'The port is not active'],
  'rate-degraded': ['mlx5_6', 'runs at 200 Gb/s'],
  'pfc-off': ['mlx5_2', 'PFC'],
  'pfc-storm': ['mlx5_7', 'pauses the network'],
  'gid-missing': ['mlx5_2', 'RoCE v2 address'],
  'pcie-acs-on': ['mlx5_0', 'ACS'],
  'gpu-driver-missing': ['GPU0', 'no driver'],
  'gpu-lost': ['GPU'],
  'nvlink-down': ['NVLink'],
  'device-gone': ['mlx5_'],
  'job-tcp': ['slurm/4242', 'TCP', 'NCCL_IB_DISABLE'],
  'probe-gdr-lost': ['rail mlx5_0', 'without GPUDirect RDMA'],
};

const widths = [[1440, 900], [390, 844]];
const schemes = ['light', 'dark'];
const patience = 180_000; // ms for a node to be observed twice and probed, on a busy machine
const ahead = 3; // nodes that run at the same time: the next ones are observed while one is tested

const args = process.argv.slice(2);
const pictures = args.find((a) => a.startsWith('--pictures='))?.slice('--pictures='.length);
const [exporter, ...chosen] = args.filter((a) => !a.startsWith('--'));
let problems = 0;

function complain(where, what) {
  problems++;
  console.log(`FAIL ${where}: ${what}`);
}

function findBrowser() {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    for (const folder of process.env.PATH.split(delimiter)) {
      if (existsSync(join(folder, name))) return join(folder, name);
    }
  }
}

// serve starts a simulated node, and returns its address when it listens.
function serve(scenario) {
  const child = spawn(exporter, ['demo', `--scenario=${scenario}`, '--web.listen-address=127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  const address = new Promise((resolve, reject) => {
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text) => {
      log += text;
      const found = log.match(/msg=listening address=(\S+)/);
      if (found) resolve(`http://${found[1]}`);
    });
    child.on('error', reject);
    child.on('exit', () => reject(new Error(`demo ${scenario} ended: ${log}`)));
  });
  address.catch(() => {}); // no unhandled rejection if no page is opened
  return { scenario, child, address };
}

// settle returns when the page has the expected text, and no longer waits for a second reading of counters.
async function settle(page, url, words) {
  for (const end = Date.now() + patience; ;) {
    await page.goto(url, { waitUntil: 'load', timeout: patience });
    const text = await page.$eval('section.verdict', (s) => s.innerText);
    const lacking = words.find((word) => !text.includes(word));
    if (!lacking && !(await page.$('a[href="./"]'))) return;
    if (Date.now() > end) throw new Error(lacking ? `the verdict lacks ${JSON.stringify(lacking)}: ${text.slice(0, 300)}` : 'the page still asks to be reloaded');
    await new Promise((resolve) => setTimeout(resolve, 3000));
  }
}

async function judge(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) complain(where, `the page is ${wide} px wider than the window`);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  for (const v of violations) {
    complain(where, `axe: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ')}`);
  }
}

async function look(page, where, name) {
  await judge(page, where);
  if (pictures) await page.screenshot({ path: join(pictures, `page-${name}.png`), fullPage: true });
}

async function visit(page, node) {
  const url = await node.address;
  for (const [width, height] of widths) {
    await page.setViewport({ width, height });
    for (const scheme of schemes) {
      const where = `${node.scenario}, ${width} px, ${scheme}`;
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      await settle(page, `${url}/`, nodes[node.scenario] ?? []);
      await look(page, where, `${node.scenario}-${width}-${scheme}`);
      const bottom = await page.$eval('section.verdict', (s) => (s.querySelector('li') ?? s).getBoundingClientRect().bottom);
      if (bottom > height) complain(where, `the first problem ends at ${Math.round(bottom)} px, below the window`);
      const tall = await page.evaluate(() => document.documentElement.scrollHeight);
      console.log(`     ${where}: ${tall} px`);
      if (node.scenario === 'healthy' && width === 1440 && tall > height) complain(where, `a healthy node is ${tall} px high, more than the window`);
      // With everything open, and a part selected.
      await page.evaluate(() => {
        const part = document.querySelector('.verdict strong a[href^="#"]')?.hash ?? document.querySelector('svg a')?.getAttribute('href');
        if (part) location.hash = part;
        for (const d of document.querySelectorAll('details')) d.open = true;
      });
      await look(page, `${where}, opened`, `${node.scenario}-${width}-${scheme}-opened`);
    }
    await page.goto(`${url}/probes`, { waitUntil: 'load', timeout: patience });
    await look(page, `${node.scenario}, ${width} px, probes`, `${node.scenario}-${width}-probes`);
  }
  if (pictures) {
    await page.goto(`${url}/`);
    await page.pdf({ path: join(pictures, `page-${node.scenario}.pdf`), format: 'A4' });
  }
}

const program = findBrowser();
if (!program) {
  console.log('SKIP: no chromium in PATH (Debian: apt install chromium): the page is not tested');
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const browser = await puppeteer.launch({ executablePath: program, args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'], protocolTimeout: patience });
const waiting = chosen.length ? chosen : Object.keys(nodes);
const served = [];
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  while (waiting.length || served.length) {
    while (waiting.length && served.length < ahead) served.push(serve(waiting.shift()));
    const node = served[0];
    await visit(page, node).catch((err) => complain(node.scenario, err.message));
    node.child.kill();
    served.shift();
  }
} finally {
  await browser.close();
  for (const node of served) node.child.kill();
}
console.log(problems ? `${problems} problems` : 'ok');
process.exit(problems ? 1 : 0);
