// One client, a process of its own: the same as sender.py, through node-postgres.
const readline = require("node:readline");
const { Client } = require("pg");

const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const given = (value) => (value !== null && typeof value === "object" ? Buffer.from(value.hex, "hex") : value);

async function main() {
  const client = new Client();
  await client.connect();
  say((await client.query("SELECT pg_backend_pid() AS pid")).rows[0].pid);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const rows = [];
    try {
      for (const [sql, parameters] of JSON.parse(line)) {
        rows.push((await client.query(sql, parameters.map(given))).rows);
      }
      say({ rows, sqlstate: null, message: null });
    } catch (error) {
      if (!error.severity) throw error; // not the server's answer
      await client.query("ROLLBACK");
      say({ rows, sqlstate: error.code, message: error.message });
    }
  }
  await client.end();
}

main();
