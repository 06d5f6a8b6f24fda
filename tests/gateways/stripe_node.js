// The vendor's library for Node, asked over pipes: a question a line, an answer a line, bodies in base64.
const readline = require("node:readline");
const { webhooks } = require("stripe");

const answers = {
  sign({ body, secret, timestamp }) {
    return { header: webhooks.generateTestHeaderString({ payload: body.toString(), secret, timestamp }) };
  },
  verify({ body, secret, header }) {
    try {
      webhooks.signature.verifyHeader(body, header, secret, webhooks.DEFAULT_TOLERANCE);
      return { refused: null };
    } catch (error) {
      return { refused: error.message };
    }
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const question = JSON.parse(line);
    question.body = Buffer.from(question.body, "base64");
    process.stdout.write(JSON.stringify(answers[question.op](question)) + "\n");
  }
}

main();
