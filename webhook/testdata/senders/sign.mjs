// Signs deliveries as the libraries of the senders do. Each line of standard
// input is {"sender", "secret", "id", "at", "body"}, with at in Unix seconds;
// each line of standard output holds the headers for it.
import { createInterface } from "node:readline";
import { sign as githubSign } from "@octokit/webhooks-methods";
import { Webhook as Standard } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";

const senders = {
  standardwebhooks: ({ secret, id, at, body }) => ({
    "webhook-id": id,
    "webhook-timestamp": String(at),
    "webhook-signature": new Standard(secret).sign(id, new Date(at * 1000), body),
  }),
  svix: ({ secret, id, at, body }) => ({
    "webhook-id": id,
    "webhook-timestamp": String(at),
    "webhook-signature": new Svix(secret).sign(id, new Date(at * 1000), body),
  }),
  github: async ({ secret, id, body }) => ({
    "x-github-delivery": id,
    "x-github-event": "push",
    "x-hub-signature-256": await githubSign(secret, body),
  }),
  stripe: ({ secret, at, body }) => ({
    "stripe-signature": Stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: at }),
  }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const delivery = JSON.parse(line);
  console.log(JSON.stringify(await senders[delivery.sender](delivery)));
}
