// Drives the browser tracker 4 on a page: commands come from the page's own
// server, one for each question, and notices go back there.
const collector = new URLSearchParams(location.search).get('collector');

window.onerror = (message) => notice({ broken: message });

// Notices are sent one after the other, so that they arrive in order.
let sending = Promise.resolve();
function notice(object) {
  sending = sending.then(() => fetch('/notice', { method: 'POST', body: JSON.stringify(object) }));
  return sending;
}

snowplowBrowserTracking.newTracker('sp', collector, {
  appId: 'browser4',
  onRequestSuccess: (batch) => notice({ sent: batch }),
  onRequestFailure: (f) => notice({ failed: { status: f.status || 0, message: f.message, events: f.events, willRetry: f.willRetry } }),
});

function track(n) {
  const e = event(n);
  switch (e.kind) {
    case 'page':
      snowplowBrowserTracking.setCustomUrl(e.url);
      return snowplowBrowserTracking.trackPageView({ title: e.title });
    case 'struct':
      return snowplowBrowserTracking.trackStructEvent(e);
    default:
      return snowplowBrowserTracking.trackSelfDescribingEvent({ event: e.event, context: e.context });
  }
}

const handlers = {
  track: ({ first, count }) => {
    for (let n = first; n < first + count; n++) track(n);
  },
  flush: () => snowplowBrowserTracking.flushBuffer(),
};

(async () => {
  // The page that comes tells that the one before is gone: what that one sends as
  // it goes is sent by then.
  if (sessionStorage.getItem('reloading')) {
    sessionStorage.removeItem('reloading');
    await notice({ did: 'reload' });
  }
  for (;;) {
    const command = await (await fetch('/next')).json();
    if (command.do === 'reload') {
      sessionStorage.setItem('reloading', 'yes');
      location.reload();
      return;
    }
    await handlers[command.do](command);
    await notice({ did: command.do });
  }
})().catch((error) => notice({ broken: String(error) }));
