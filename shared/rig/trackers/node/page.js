// Drives the browser tracker 4 on a page: commands come from the page's own
// server, one for each question, and notices go back there.
const collector = new URLSearchParams(location.search).get('collector');

// Notices are sent one after the other, so that they arrive in order.
let sending = Promise.resolve();
function notice(object) {
  sending = sending.then(() => fetch('/notice', { method: 'POST', body: JSON.stringify(object) }));
  return sending;
}

snowplow.newTracker('sp', collector, {
  appId: 'browser4',
  onRequestSuccess: (batch) => notice({ sent: batch }),
  onRequestFailure: (f) => notice({ failed: { status: f.status || 0, message: f.message, events: f.events, willRetry: f.willRetry } }),
});

function track(n) {
  const e = event(n);
  switch (e.kind) {
    case 'page':
      snowplow.setCustomUrl(e.url);
      return snowplow.trackPageView({ title: e.title });
    case 'struct':
      return snowplow.trackStructEvent(e);
    default:
      return snowplow.trackSelfDescribingEvent({ event: e.event, context: e.context });
  }
}

const handlers = {
  track: ({ first, count }) => {
    for (let n = first; n < first + count; n++) track(n);
  },
  flush: () => snowplow.flushBuffer(),
};

(async () => {
  for (;;) {
    const command = await (await fetch('/next')).json();
    if (command.do === 'reload') {
      await notice({ did: 'reload' });
      location.reload();
      return;
    }
    await handlers[command.do](command);
    await notice({ did: command.do });
  }
})().catch((error) => notice({ broken: String(error) }));
