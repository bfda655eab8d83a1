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

// nodes are scenarios, and what the first screen must say of each fault in one item: the part with the fault, and what to do. A
// healthy node has none.
const port3 = 'enp94s0np0', port2 = 'enp79s0np0', port6 = 'enp206s0np0', port7 = 'enp220s0np0';
const nodes = {
  'healthy': [],
  'port-down': [['mlx5_3: The port is not active.', `ip link set dev ${port3} up`]],
  'rate-degraded': [['mlx5_6: The port runs at 200 Gb/s, but 400 Gb/s is expected.', `ethtool ${port6}, mlxlink -d mlx5_6 -m`]],
  'pfc-off': [['mlx5_2: PFC does not match the RoCE configuration.', `mlnx_qos -i ${port2} --pfc 0,0,0,1,0,0,0,0`]],
  'pfc-storm': [['mlx5_7: PFC storm: this host pauses the network.', `ip link set dev ${port7} down ends the storm`]],
  'gid-missing': [['mlx5_2: NCCL would not use a RoCE v2 address.', `dev ${port2}, and make it persistent`]],
  'pcie-acs-on': [['mlx5_7: ACS sends GPUDirect traffic through the root complex.', 'for b in 0000:17:03.0 0000:17:00.0']],
  'gpu-driver-missing': [['GPU7: The GPU has no driver that CUDA can use.', 'Run modprobe nvidia']],
  'gpu-lost': [['GPU5: The driver has lost the GPU.', 'Drain the node, look for Xid 79']],
  'nvlink-down': [['GPU2: The GPU has lost NVLinks.', 'Drain the node, and with no job on it run nvidia-smi --gpu-reset']],
  'device-gone': [
    ['node: mlx5_5 is missing: 7 compute ports where 8 are expected.', 'echo 1 > /sys/bus/pci/rescan'],
  ],
  'job-tcp': [['slurm/4242: NCCL uses TCP instead of RDMA.', 'Remove NCCL_IB_DISABLE where the job gets it']],
  'probe-gdr-lost': [['rail mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7: without GPUDirect RDMA', 'check NCCL_NET_GDR_LEVEL and NCCL_DMABUF_ENABLE']],
};
const unharmed = 'No problems found';

const widths = [[1440, 900], [390, 844]];
const schemes = ['light', 'dark'];
const patience = 600_000; // ms for a node to be observed twice and probed, on a machine with a load of 60
const ahead = 2; // nodes that run at the same time: the next one is observed while one is tested
const crashes = 1; // of the browser, that are printed and do not fail the test

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

// lacking returns the first fault that no single item of the verdict has with its part and remedy.
function lacking(faults, items) {
  return faults.find((words) => !items.some((item) => words.every((word) => item.includes(word))));
}

// settle returns when the page has the expected faults, and no longer waits for a second reading of counters.
async function settle(page, url, faults) {
  for (const end = Date.now() + patience; ;) {
    await page.goto(url, { waitUntil: 'load', timeout: patience });
    const { text, items } = await page.$eval('section.verdict', (s) => ({ text: s.innerText, items: [...s.querySelectorAll(':scope > ul > li')].map((li) => li.innerText) }));
    const lost = faults.length ? lacking(faults, items) : text.includes(unharmed) && !items.length ? undefined : [unharmed];
    if (!lost && !(await page.$('a[href="./"]'))) return;
    if (Date.now() > end) throw new Error(lost ? `no item of the verdict has ${JSON.stringify(lost)}: ${text.slice(0, 600)}` : 'the page still asks to be reloaded');
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
  const rows = [];
  const url = await node.address;
  for (const [width, height] of widths) {
    await page.setViewport({ width, height });
    for (const scheme of schemes) {
      const where = `${node.scenario}, ${width} px, ${scheme}`;
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      await settle(page, `${url}/`, nodes[node.scenario] ?? []);
      await look(page, where, `${node.scenario}-${width}-${scheme}`);
      // What follows from the first problem may be below the window: its remedy may not.
      const bottom = await page.$eval('section.verdict', (s) => {
        const first = s.querySelector('li') ?? s;
        return (first.querySelector(':scope > p.finding') ?? first).getBoundingClientRect().bottom;
      });
      if (bottom > height) complain(where, `the first problem ends at ${Math.round(bottom)} px, below the window`);
      const tall = await page.evaluate(() => document.documentElement.scrollHeight);
      rows.push({ node: node.scenario, width, scheme, height: tall, 'first problem ends at': Math.round(bottom) });
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
  return rows;
}

const program = findBrowser();
if (!program) {
  console.log('SKIP: no chromium in PATH (Debian: apt install chromium): the page is not tested');
  process.exit(0);
}
if (pictures) mkdirSync(pictures, { recursive: true });

// open starts the browser. Shared memory is not in /dev/shm, which is small in containers.
async function open() {
  const browser = await puppeteer.launch({
    executablePath: program, timeout: patience, protocolTimeout: patience,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
  const child = browser.process();
  let log = '';
  child.stderr?.setEncoding('utf8').on('data', (text) => { log = (log + text).slice(-2000); });
  return { browser, why: () => `exit code ${child.exitCode}, signal ${child.signalCode}: ${log.trim().slice(-600)}` };
}

// test visits a node in a new tab. It returns the rows of the table, or undefined where the browser, and not the page, failed.
async function test(session, node) {
  let crashed;
  try {
    const page = await session.browser.newPage();
    page.setDefaultTimeout(patience);
    page.on('error', (err) => { crashed = err; }); // the tab crashed
    const rows = await visit(page, node);
    await page.close();
    return rows;
  } catch (err) {
    const ours = session.browser.connected && !crashed && !/Target closed|Session closed|detached|Connection closed/.test(err.message);
    if (ours) {
      complain(node.scenario, err.message);
      return [];
    }
    console.log(`the browser failed at ${node.scenario}: ${crashed?.message ?? err.message}; ${session.why()}`);
  }
}

const waiting = chosen.length ? chosen : Object.keys(nodes);
const served = [];
const table = [];
let session = await open();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
process.on('exit', () => { for (const node of served) node.child.kill(); });
let failures = 0;
try {
  while (waiting.length || served.length) {
    while (waiting.length && served.length < ahead) served.push(serve(waiting.shift()));
    const node = served[0];
    const before = problems;
    let rows = await test(session, node);
    if (!rows) {
      await session.browser.close().catch(() => {});
      session = await open();
      if (++failures > crashes) complain(node.scenario, 'the browser failed again');
      else rows = await test(session, node) ?? (complain(node.scenario, 'the browser failed again'), []);
    }
    table.push(...rows ?? []);
    console.log(`${problems > before ? 'FAIL' : 'ok  '} ${node.scenario}`);
    node.child.kill();
    served.shift();
  }
} finally {
  await session.browser.close().catch(() => {});
}
console.table(table);
console.log(problems ? `${problems} problems` : 'ok');
process.exit(problems ? 1 : 0);
