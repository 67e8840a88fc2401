// Orders as JSON: written, hashed, compressed, parsed again, in several rounds.
'use strict';
const zlib = require('zlib');
const crypto = require('crypto');

let seed = 17;
function random(n) {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return (seed >> 16) % n;
}

function order(number) {
  const items = [];
  for (let i = random(8); i >= 0; i--) {
    items.push({ article: `article ${random(5000)}`, price: random(900) / 10, tags: ['a', 'b', String(i)] });
  }
  return { number, items, note: 'x'.repeat(random(200)) };
}

let kept = [];
for (let round = 0; round < 12; round++) {
  for (let i = 0; i < 800; i++) kept.push(order(round * 1000 + i));
  const buffers = [];
  for (let i = 0; i < kept.length; i += 25) {
    buffers.push(zlib.deflateSync(Buffer.from(JSON.stringify(kept.slice(i, i + 25)))));
  }
  const hash = crypto.createHash('sha256');
  kept = [];
  for (const buffer of buffers) {
    hash.update(buffer);
    for (const one of JSON.parse(zlib.inflateSync(buffer).toString())) {
      if (random(3) > 0) kept.push(one);
    }
  }
  console.log(round, buffers.length, kept.length, hash.digest('hex').slice(0, 16));
}
