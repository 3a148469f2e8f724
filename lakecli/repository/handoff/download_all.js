"use strict";
// Writes all objects of the page into one ZIP archive, stored, while they arrive.
const links = [...document.querySelectorAll("td a")];
const all = document.getElementById("all");
const [button, bar, status] = all.children;
const MAX_IN_MEMORY = 2 ** 31;
const WIDE = 0xffffffff;
const UNSAFE = /^\/|(^|\/)\.{0,2}(\/|$)|[\\:\0]/;
const BLOCKED = "The files cannot be read from this page: the connection was lost, or the bucket " +
  "does not let pages read it (CORS). Click the names one by one, ask for a script, or ask the " +
  "sender to allow it: lakecli help clouds.";

const table = new Uint32Array(256).map((_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function crc32(crc, data) {
  for (let k = 0; k < data.length; k++) crc = table[(crc ^ data[k]) & 255] ^ (crc >>> 8);
  return crc >>> 0;
}

function record(...fields) { // of [size, number], little-endian, or bytes
  const bytes = [];
  for (const field of fields) {
    if (field instanceof Uint8Array) bytes.push(...field);
    else for (let k = 0, rest = field[1]; k < field[0]; k++, rest = Math.floor(rest / 256)) bytes.push(rest % 256);
  }
  return new Uint8Array(bytes);
}

// The entry of a file, at its place and in the directory. What needs 64 bits is in a field behind
// the name, in the order of the format: both sizes, the place.
function entry(file, central) {
  const wide = [];
  if (file.size >= WIDE) wide.push([8, file.size], [8, file.size]);
  if (central && file.at >= WIDE) wide.push([8, file.at]);
  const extra = wide.length ? record([2, 1], [2, 8 * wide.length], ...wide) : new Uint8Array();
  const size = Math.min(file.size, WIDE), version = wide.length ? 45 : 20;
  const shared = [[2, version], [2, 0x800], [2, 0], [2, 0], [2, 0x21], [4, file.crc], [4, size], [4, size],
    [2, file.name.length], [2, extra.length]];
  return central
    ? record([4, 0x02014b50], [2, version], ...shared, [2, 0], [2, 0], [2, 0], [4, 0], [4, Math.min(file.at, WIDE)], file.name, extra)
    : record([4, 0x04034b50], ...shared, file.name, extra);
}

function end(count, at, size) {
  const parts = [];
  if (count >= 0xffff || at >= WIDE || size >= WIDE) {
    parts.push(record([4, 0x06064b50], [8, 44], [2, 45], [2, 45], [4, 0], [4, 0], [8, count], [8, count], [8, size], [8, at]),
      record([4, 0x07064b50], [4, 0], [8, at + size], [4, 1]));
  }
  const few = Math.min(count, 0xffff);
  return record(...parts, [4, 0x06054b50], [2, 0], [2, 0], [2, few], [2, few], [4, Math.min(size, WIDE)], [4, Math.min(at, WIDE)], [2, 0]);
}

async function open(name, total) { // a file where the browser can write one, else memory
  if (window.showSaveFilePicker) {
    const handle = await window.showSaveFilePicker({suggestedName: name});
    const file = await handle.createWritable();
    return {write: (data, position) => file.write({type: "write", position, data}), close: () => file.close(), abort: () => file.abort()};
  }
  if (total > MAX_IN_MEMORY) throw new Error("This browser can only keep an archive in memory: 2 GB at most. Use Chrome or Edge, click the names one by one, or ask for a script.");
  const parts = new Map();
  return {
    write: async (data, position) => { parts.set(position, data); },
    abort: () => parts.clear(),
    close: () => {
      const saved = document.createElement("a");
      saved.href = URL.createObjectURL(new Blob([...parts.values()], {type: "application/zip"}));
      saved.download = name;
      saved.click();
      setTimeout(() => URL.revokeObjectURL(saved.href), 60000);
    },
  };
}

async function fetched(link) {
  let answer;
  try {
    answer = await fetch(link.href, {credentials: "omit", cache: "no-store"});
  } catch {
    throw new Error(BLOCKED);
  }
  if (!answer.ok) throw new Error(`${link.textContent}: the server refuses it (${answer.status}). Its link may have expired, or the object has changed.`);
  return answer.body.getReader();
}

async function downloadAll() {
  const wanted = links.filter(link => !UNSAFE.test(link.textContent));
  const sizes = wanted.map(link => Number(link.dataset.size));
  bar.max = sizes.reduce((sum, size) => sum + size, 0) || 1;
  const archive = await open("files.zip", bar.max);
  bar.value = 0;
  bar.hidden = false;
  button.disabled = true;
  try {
    const files = [];
    let at = 0;
    for (const [k, link] of wanted.entries()) {
      status.textContent = `${k + 1} of ${wanted.length}: ${link.textContent}`;
      const file = {name: new TextEncoder().encode(link.textContent), at, size: sizes[k], crc: 0};
      const place = at + entry(file).length;
      let crc = WIDE, size = 0;
      const reader = await fetched(link);
      await archive.write(entry(file), at);
      for (let piece; !(piece = await reader.read()).done; size += piece.value.length) {
        crc = crc32(crc, piece.value);
        await archive.write(piece.value, place + size);
        bar.value += piece.value.length;
      }
      if (size !== file.size && !("encoded" in link.dataset)) throw new Error(`${link.textContent}: ${size} of ${file.size} bytes have arrived; try again.`);
      file.size = size;
      file.crc = (crc ^ WIDE) >>> 0;
      await archive.write(entry(file), at);
      at = place + size;
      files.push(file);
    }
    const start = at;
    for (const file of files) {
      const one = entry(file, true);
      await archive.write(one, at);
      at += one.length;
    }
    await archive.write(end(files.length, start, at - start), at);
    await archive.close();
    const left = links.length - wanted.length;
    status.textContent = `Complete: ${files.length} files in files.zip.` + (left ? ` ${left} with unusual names are left out: click these.` : "");
  } catch (error) {
    archive.abort();
    throw error;
  } finally {
    bar.hidden = true;
    button.disabled = false;
  }
}

button.onclick = () => downloadAll().catch(error => {
  status.textContent = error.name === "AbortError" ? "" : error.message;
});
all.hidden = links.length === 0;
