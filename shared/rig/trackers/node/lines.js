// Reads commands from standard input and writes notices to standard output, one
// JSON object a line.
const readline = require('node:readline');

exports.notice = (object) => process.stdout.write(JSON.stringify(object) + '\n');

exports.commands = (handlers) => {
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', async (line) => {
    const command = JSON.parse(line);
    await handlers[command.do](command);
    exports.notice({ did: command.do });
  });
  lines.on('close', () => process.exit(0));
};
