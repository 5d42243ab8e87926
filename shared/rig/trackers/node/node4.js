// Drives the Node tracker 4 as its users have it: POST, ten events a request.
const { newTracker, buildPageView, buildStructEvent, buildSelfDescribingEvent } = require('@snowplow/node-tracker');
const { event } = require('./events.js');
const { commands, notice } = require('./lines.js');

const tracker = newTracker(
  { namespace: 'sp', appId: 'node4', encodeBase64: true },
  {
    endpoint: process.argv[2],
    onRequestSuccess: (batch) => notice({ sent: batch }),
    onRequestFailure: (f) => notice({ failed: { status: f.status || 0, message: f.message, events: f.events, willRetry: f.willRetry } }),
  },
);

function track(n) {
  const e = event(n);
  switch (e.kind) {
    case 'page':
      return tracker.track(buildPageView({ pageUrl: e.url, pageTitle: e.title }));
    case 'struct':
      return tracker.track(buildStructEvent(e));
    default:
      return tracker.track(buildSelfDescribingEvent({ event: e.event }), e.context);
  }
}

commands({
  track: ({ first, count }) => {
    for (let n = first; n < first + count; n++) track(n);
  },
  flush: () => tracker.flush(),
});
