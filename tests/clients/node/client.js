// node-postgres. It prepares a statement when it is given a name.
const readline = require("node:readline");
const { Client } = require("pg");

const SQL = {
  "bytes as bytea": "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)",
  "string as text": "SELECT * FROM payment_idem.ingest($1, $2, $3::text, $4)",
  "bytes, no cast": "SELECT * FROM payment_idem.ingest($1, $2, $3, $4)",
  "string, no cast": "SELECT * FROM payment_idem.ingest($1, $2, $3, $4)",
  "string as bytea": "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)",
  "bytes in a batch": "SELECT * FROM payment_idem.ingest_batch($1, $2::text[], $3::bytea[], $4::text[])",
};

async function main() {
  const client = new Client();
  await client.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [form, eventId, body, signature] = line.split("\t");
    if (form === "prepared") {
      console.log(Object.values((await client.query(process.env.PREPARED)).rows[0])[0]);
      continue;
    }
    const payload = Buffer.from(body, "hex");
    const given = form.startsWith("bytes") ? payload : payload.toString("utf8");
    try {
      const delivery = [eventId, given, signature];
      const values = [process.env.TENANT, ...(form.endsWith("batch") ? delivery.map((value) => [value]) : delivery)];
      const [row] = (await client.query({ name: form, text: SQL[form], values })).rows;
      console.log([row.outcome, row.reason, row.payload_sha256].join("\t"));
    } catch (error) {
      console.log(["error", error.severity ? error.code : "client"].join("\t"));
    }
  }
  await client.end();
}

main();
