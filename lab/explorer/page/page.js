// The explorer: sliders, curves, published numbers. Pure functions first; the page itself is at the end and runs only
// where there is a document, so that `check.mjs` can run the rest without a browser.
'use strict';

const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256].map(kb => kb * 1024);
const MEBI = 1048576;

function range(from, to, steps) {
  return Array.from({ length: steps + 1 }, (_, i) => from + (to - from) * i / steps);
}

/** All views. `m`: constants of the machine by name. `x`: the exported models. */
function views(m) {
  return [
    {
      key: 'clocks', title: 'Clocked interrupts', axes: ['octets of the socket buffer', 'Mbit/s'], log: true,
      ids: ['E-12', 'E-15', 'E-16'],
      said: 'netperf between two hosts (seed 004, figures 4 and 5). The paper prints no points of these figures.',
      params: [
        { key: 'interrupt', label: 'interrupt or tick, us', min: 1, max: 200, step: 1, value: m.interrupt_us },
        { key: 'hertz', label: 'clock, Hz', min: 100, max: 8000, step: 100, value: 500 },
        { key: 'switch', label: 'wake-up after another process, us', min: 0, max: 2000, step: 10, value: m.switch_us },
        { key: 'look', label: 'look at the device, us', min: 1, max: 100, step: 1, value: m.poll_us },
        { key: 'work', label: 'work allows, Mbit/s', min: 20, max: 600, step: 2, value: m.throughput_mbit_s },
        { key: 'computes', label: 'a process computes (0 or 1)', min: 0, max: 1, step: 1, value: 0 },
      ],
      curves: (x, p) => [['interrupts', 0], [`clocked, ${p.hertz} Hz`, 1], ['polling', 2], ['coalesced', 3], ['NAPI', 4]]
        .map(([label, notice]) => ({
          label,
          points: SIZES.map(octets => [octets, x.netperf(notice, p.hertz, p.interrupt, p.look, p.switch, p.work,
            m.segment_octets, m.process_share, m.echo_ms, m.wire_us, m.time_slice_ms, octets, p.computes, 1)]),
        })),
      points: [],
    },
    {
      key: 'livelock', title: 'Receive livelock', axes: ['packets offered per second', 'delivered per second'], log: false,
      ids: ['E-14', 'E-11'],
      said: 'A receiver under overload, by what keeps it from being overrun (Mogul and Ramakrishnan 1996; seed 004).',
      params: [
        { key: 'interrupt', label: 'interrupt, us', min: 5, max: 200, step: 1, value: 60 },
        { key: 'process', label: 'above it, us a packet', min: 10, max: 400, step: 5, value: 140 },
        { key: 'queue', label: 'queue, packets', min: 1, max: 256, step: 1, value: 32 },
        { key: 'quota', label: 'quota, packets', min: 1, max: 100, step: 1, value: 10 },
        { key: 'hertz', label: 'clock, Hz', min: 50, max: 4000, step: 50, value: 500 },
      ],
      curves: (x, p) => [['interrupts', 0, 0], ['quota', 1, p.quota], ['clocked', 2, p.hertz]].map(([label, guard, value]) => ({
        label,
        points: range(200, Math.min(1.5e6 / p.interrupt, 60000), 40)
          .map(offered => [offered, x.delivered(guard, value, p.interrupt, p.process, p.queue, offered, 0.5)]),
      })),
      points: [],
    },
    {
      key: 'buses', title: 'Buses', axes: ['octets of a PDU', 'ms until the last octet is there'], log: true,
      ids: ['A-10'],
      said: 'A PDU over a bus, a line and another bus (seed 000): adapters that keep it whole, or pass each cell on.',
      params: [
        { key: 'bus', label: 'bus at either side, 2^20 octets/s', min: 5, max: 200, step: 1, value: 50 },
        { key: 'line', label: 'line, 2^20 octets/s', min: 1, max: 100, step: 0.5, value: 16 },
        { key: 'cell', label: 'octets of a cell', min: 16, max: 4096, step: 16, value: 48 },
      ],
      curves: (x, p) => {
        const sizes = [1, 2, 4, 8, 16, 32, 64].map(kb => kb * 1024);
        const curve = (label, units, bus) => ({
          label, points: sizes.map(n => [n, x.delay_ms(n, units(n), bus * MEBI, p.line * MEBI)]),
        });
        return [curve('kept whole at both sides', () => 1, p.bus), curve('cell by cell', n => Math.ceil(n / p.cell), p.bus),
          curve('the line alone', () => 1, 0)];
      },
      points: [{ id: 'A-10', unit: 'ms', x: 65536 }],
    },
  ];
}

/** The numbers of published rows that have a place on the axes. */
function publishedPoints(view, rows) {
  return view.points.flatMap(({ id, unit, x }) => rows.filter(r => r.id === id && r.unit === unit && typeof r.published === 'number')
    .map(r => [x, r.published, r.what]));
}

function steps(low, high, log) {
  if (log) {
    const all = [];
    for (let n = 2 ** Math.ceil(Math.log2(low)); n <= high * 1.001; n *= 2) all.push(n);
    return all;
  }
  const size = 10 ** Math.floor(Math.log10((high - low) / 4 || 1));
  const step = [1, 2, 5, 10].map(n => n * size).find(s => (high - low) / s <= 8);
  const all = [];
  for (let n = Math.ceil(low / step) * step; n <= high * 1.001; n += step) all.push(n);
  return all;
}

const text = s => String(s).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const round = n => Number(n.toPrecision(4)).toString();

/** The picture of curves and points. Names are beside the ends of the curves, and do not overlap. */
function picture(view, curves, points) {
  const [W, H, L, R, T, B] = [900, 460, 70, 190, 16, 48];
  const all = curves.flatMap(c => c.points).concat(points);
  const xs = all.map(p => p[0]), [low, high] = [Math.min(...xs), Math.max(...xs)];
  const top = Math.max(...all.map(p => p[1]), 1e-9) * 1.06;
  const part = v => view.log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
  const X = v => L + part(v) * (W - L - R), Y = v => H - B - v / top * (H - T - B);
  const out = [`<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="${text(view.title)}" font-size="13" fill="var(--ink)">`];
  for (const v of steps(0, top, false)) out.push(`<path d="M${L} ${Y(v).toFixed(1)}H${W - R}" stroke="var(--line)"/><text x="${L - 8}" y="${(Y(v) + 4).toFixed(1)}" text-anchor="end">${round(v)}</text>`);
  for (const v of steps(low, high, view.log)) out.push(`<text x="${X(v).toFixed(1)}" y="${H - B + 18}" text-anchor="middle">${v >= 1024 && view.log ? v / 1024 + 'k' : round(v)}</text>`);
  out.push(`<text x="${(L + W - R) / 2}" y="${H - 8}" text-anchor="middle">${text(view.axes[0])}</text><text transform="translate(16 ${(H - B + T) / 2})rotate(-90)" text-anchor="middle">${text(view.axes[1])}</text>`);
  const ends = curves.map((c, i) => ({ i, y: Y(c.points[c.points.length - 1][1]) })).sort((a, b) => a.y - b.y);
  let free = T;
  for (const end of ends) free = (end.at = Math.max(end.y, free)) + 16;
  let limit = H - B;
  for (const end of [...ends].reverse()) limit = (end.at = Math.min(end.at, limit)) - 16;
  for (const { i, y, at } of ends) {
    const c = curves[i], colour = `var(--c${i % 6})`;
    out.push(`<polyline fill="none" stroke="${colour}" stroke-width="2" points="${c.points.map(p => `${X(p[0]).toFixed(1)},${Y(p[1]).toFixed(1)}`).join(' ')}"/>`);
    out.push(`<path d="M${W - R} ${y.toFixed(1)}L${W - R + 12} ${at.toFixed(1)}" stroke="${colour}"/><text x="${W - R + 16}" y="${(at + 4).toFixed(1)}" fill="${colour}">${text(c.label)}</text>`);
  }
  for (const [x, y, what] of points) out.push(`<circle cx="${X(x).toFixed(1)}" cy="${Y(y).toFixed(1)}" r="6" fill="none" stroke="var(--ink)" stroke-width="2"><title>${text(what)}: ${y}</title></circle>`);
  return out.join('\n') + '</svg>';
}

/** A state as a link's fragment, and back. What is out of range or unknown is the slider's own value. */
function fragment(view, p) {
  return '#' + new URLSearchParams({ view: view.key, ...Object.fromEntries(view.params.map(s => [s.key, p[s.key]])) });
}

function state(all, hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const view = all.find(v => v.key === given.get('view')) || all[0];
  const p = {};
  for (const s of view.params) {
    const n = given.has(s.key) ? Number(given.get(s.key)) : NaN;
    p[s.key] = n >= s.min && n <= s.max ? n : s.value;
  }
  return { view, p };
}

/** How many of the laboratory's own results the models in this page give, to the last digit or nearly so. */
function check(x, samples) {
  const same = samples.filter(s => Math.abs(x[s.function](...s.arguments) - s.result) <= 1e-9 * Math.abs(s.result));
  return [same.length, samples.length];
}

async function load(data) {
  const octets = Uint8Array.from(data.wasm.match(/../g), h => parseInt(h, 16));
  return (await WebAssembly.instantiate(octets, {})).instance.exports;
}

globalThis.explorer = { views, publishedPoints, picture, fragment, state, check, load };

if (typeof document !== 'undefined') {
  const data = JSON.parse(document.getElementById('data').textContent);
  const at = id => document.getElementById(id);
  load(data).then(x => {
    const all = views(data.machine);
    let now = state(all, location.hash);
    const [same, of] = check(x, data.samples);
    at('check').textContent = `${same} of ${of} results are those of the laboratory (version ${data.version}).`;
    const draw = () => {
      const { view, p } = now;
      at('figure').innerHTML = picture(view, view.curves(x, p), publishedPoints(view, data.published));
      at('said').textContent = view.said;
      const rows = data.published.filter(r => view.ids.includes(r.id));
      at('published').innerHTML = '<tr><th>place<th>what<th>published<th>laboratory\'s verdict' + rows.map(r =>
        `<tr><td>${text(r.id)}<td>${text(r.what)}${r.unit ? ', ' + text(r.unit) : ''}<td>${text(r.published)}<td>${text(r.verdict)}`).join('');
      history.replaceState(null, '', fragment(view, p));
    };
    const build = () => {
      at('views').innerHTML = all.map(v => `<button type="button" data-view="${v.key}" aria-pressed="${v === now.view}">${text(v.title)}</button>`).join('');
      at('sliders').innerHTML = now.view.params.map(s => `<label>${text(s.label)} <output>${now.p[s.key]}</output><input type="range" name="${s.key}" min="${s.min}" max="${s.max}" step="${s.step}" value="${now.p[s.key]}"></label>`).join('');
      draw();
    };
    at('views').onclick = e => { if (e.target.dataset.view) { now = state(all, 'view=' + e.target.dataset.view); build(); } };
    at('sliders').oninput = e => { now.p[e.target.name] = Number(e.target.value); e.target.previousElementSibling.textContent = e.target.value; draw(); };
    at('reset').onclick = () => { now = state(all, 'view=' + now.view.key); build(); };
    at('link').onclick = () => navigator.clipboard.writeText(location.href).then(() => { at('copied').textContent = 'copied'; });
    addEventListener('hashchange', () => { now = state(all, location.hash); build(); });
    build();
  });
}
