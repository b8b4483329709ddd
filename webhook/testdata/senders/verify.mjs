// Verifies signed deliveries as the libraries of the receivers do. Each line of
// standard input is {"receiver", "secret", "headers", "body"}; each line of
// standard output is true or false.
import { createInterface } from "node:readline";
import { verify as githubVerify } from "@octokit/webhooks-methods";
import { Webhook as Standard } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";

const receivers = {
  standardwebhooks: ({ secret, headers, body }) => new Standard(secret).verify(body, headers),
  svix: ({ secret, headers, body }) => new Svix(secret).verify(body, headers),
  github: async ({ secret, headers, body }) => {
    if (!await githubVerify(secret, body, headers["x-hub-signature-256"])) throw new Error("not verified");
  },
  stripe: ({ secret, headers, body }) => Stripe.webhooks.constructEvent(body, headers["stripe-signature"], secret),
};

for await (const line of createInterface({ input: process.stdin })) {
  const delivery = JSON.parse(line);
  let verified = true;
  try {
    await receivers[delivery.receiver](delivery);
  } catch {
    verified = false;
  }
  console.log(verified);
}
