// Checks a page of the explorer without a browser: node check.mjs PAGE. The models in it give the laboratory's results,
// every view draws at both ends of every slider, and a link restores its state.
import { readFileSync } from 'node:fs';

const page = readFileSync(process.argv[2], 'utf8');
const [data, script] = [/<script type="application\/json" id="data">([\s\S]*?)<\/script>/, /<script>([\s\S]*?)<\/script>/]
  .map(part => page.match(part)[1]);
const failed = [];
const must = (holds, what) => { if (!holds) failed.push(what); };

(0, eval)(script);
const { views, publishedPoints, picture, fragment, state, check, load } = globalThis.explorer;
const known = JSON.parse(data);
const models = await load(known);
const [same, of] = check(models, known.samples);
must(of >= 20 && same === of, `${same} of ${of} results are those of the laboratory`);
const all = views(known.machine);
let pictures = 0;
for (const view of all) {
  const begin = state(all, 'view=' + view.key).p;
  const states = [begin, ...view.params.flatMap(s => [s.min, s.max].map(value => ({ ...begin, [s.key]: value })))];
  for (const p of states) {
    const svg = picture(view, view.curves(models, p), publishedPoints(view, known.published));
    must(!/NaN|Infinity|undefined/.test(svg), `${view.key} at ${JSON.stringify(p)} has a number that is none`);
    must((svg.match(/<polyline/g) || []).length >= 3, `${view.key} has too few curves`);
    const back = state(all, fragment(view, p));
    must(back.view === view && JSON.stringify(back.p) === JSON.stringify(p), `${view.key}: a link does not restore its state`);
    pictures += 1;
  }
  must(known.published.some(row => view.ids.includes(row.id)), `${view.key} has nothing published beside it`);
}
const buses = all.find(view => view.key === 'buses');
must(publishedPoints(buses, known.published).length === 2, 'the published delays are not in the picture');
const curves = buses.curves(models, state(all, 'view=buses').p);
const [, whole] = curves[0].points.at(-1), [, line] = curves[2].points.at(-1);
must(whole.toFixed(1) === '6.4' && line.toFixed(1) === '3.9', `64 KB: ${whole} and ${line} ms`);
must(!/https?:\/\//.test(page.replace(/http:\/\/www\.w3\.org\S*/g, '')), 'the page asks another server');
if (failed.length) {
  console.error(failed.join('\n'));
  process.exit(1);
}
console.log(`${same} results of the laboratory, ${pictures} pictures: the page is right`);
