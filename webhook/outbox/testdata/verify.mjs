// A receiver that verifies what it gets with the libraries of Standard Webhooks
// and of Svix, for each secret that it is given: 204 when all agree, else 401.
// Its first line says on which port it listens.
import http from "node:http";
import { Webhook as Standard } from "standardwebhooks";
import { Webhook as Svix } from "svix";

const secrets = process.argv.slice(2);

http.createServer((req, res) => {
  const chunks = [];
  req.on("data", chunk => chunks.push(chunk));
  req.on("end", () => {
    const body = Buffer.concat(chunks).toString("utf8");
    try {
      for (const secret of secrets) {
        new Standard(secret).verify(body, req.headers);
        new Svix(secret).verify(body, req.headers);
      }
      res.writeHead(204);
    } catch {
      res.writeHead(401);
    }
    res.end();
  });
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
