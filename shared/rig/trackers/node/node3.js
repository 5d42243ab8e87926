// Drives the Node tracker 3: node3.js URL post|get
const { gotEmitter, tracker, buildPageView, buildStructEvent, buildSelfDescribingEvent } = require('node-tracker-3');
const { event } = require('./events.js');
const { commands, notice } = require('./lines.js');

const url = new URL(process.argv[2]);
const get = process.argv[3] === 'get';
// A GET is repeated twice unless told otherwise, which is sooner than a busy
// machine mends an outage.
const repeats = get ? 20 : undefined;
const emitter = gotEmitter(url.hostname, 'http', url.port, process.argv[3], get ? 1 : 10, repeats, undefined, (error, response) => {
  const r = response || (error && error.response);
  const status = r ? r.statusCode : 0;
  notice(error ? { failed: { status, message: error.message } } : { answered: status });
});
const t = tracker(emitter, 'sp', 'node3', true);

function track(n) {
  const e = event(n);
  switch (e.kind) {
    case 'page':
      return t.track(buildPageView({ pageUrl: e.url, pageTitle: e.title }));
    case 'struct':
      return t.track(buildStructEvent(e));
    default:
      return t.track(buildSelfDescribingEvent({ event: e.event }), e.context);
  }
}

commands({
  track: ({ first, count }) => {
    for (let n = first; n < first + count; n++) track(n);
  },
  flush: () => emitter.flush(),
});
