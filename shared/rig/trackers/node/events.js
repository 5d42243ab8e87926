// The events that every driver tracks, by number, so that the test knows what to
// expect of any tracker. Shared by Node and the browser.
(function (root) {
  const note = 'naïve "quotes" \\ <tags> & 日本 😀 \u2028 end';

  root.event = function (n) {
    switch (n % 3) {
      case 0:
        return { kind: 'page', url: `https://shop.example/page/${n}?q=a%20b&x=%C3%A9#top`, title: `page ${n} ${note}` };
      case 1:
        return { kind: 'struct', category: 'shop', action: 'add', label: `label ${n} ${note}`, property: `property ${n}`, value: n + 0.5 };
      default:
        return {
          kind: 'self',
          event: { schema: 'iglu:example.shop/thing/jsonschema/1-0-0', data: { number: n, text: note } },
          context: [{ schema: 'iglu:example.shop/where/jsonschema/1-0-0', data: { shelf: n } }],
        };
    }
  };
})(typeof module === 'undefined' ? window : module.exports);
