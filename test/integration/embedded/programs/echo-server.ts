// A small part: listens on the port given, answers with its process id and what it was told in SECRET.
import { createServer } from 'node:http';

createServer((_request, response) => {
  response.end(JSON.stringify({ pid: process.pid, secret: process.env['SECRET'] }));
}).listen(Number(process.argv[2]), '127.0.0.1', () => process.stdout.write('listening\n'));
