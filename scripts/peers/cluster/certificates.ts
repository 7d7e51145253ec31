import "reflect-metadata";
import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";
import { apiServiceAddress } from "./network.ts";

/** A certificate and its key, as files. */
export type KeyFiles = { readonly certificate: string; readonly key: string };

export type ClusterCertificates = {
  /** The one CA of the cluster. */
  readonly ca: string;
  readonly apiServer: KeyFiles;
  /** Of the kubelet as a server. */
  readonly kubeletServer: KeyFiles;
  /** May do everything at the API server; the kubelet knows it as well. */
  readonly admin: KeyFiles;
  readonly controllerManager: KeyFiles;
  readonly scheduler: KeyFiles;
  readonly node: KeyFiles;
  /** With which the API server signs service accounts' tokens. */
  readonly serviceAccounts: { readonly publicKey: string; readonly privateKey: string };
};

type Subject = { readonly subject: string; readonly names?: readonly x509.JsonGeneralName[] };

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const caSubject = "CN=cluster-ca";
const cushionMs = 60_000;
const ttlMs = 2 * 86_400_000;
const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
const { digitalSignature, keyCertSign } = x509.KeyUsageFlags;

/**
 * Makes the certificates of a cluster with one node in the folder. Who is who stands in the subjects, see
 * https://kubernetes.io/docs/setup/best-practices/certificates/.
 */
export async function createCertificates(
  folder: string,
  node: { readonly name: string; readonly ip: string },
  now: number,
): Promise<ClusterCertificates> {
  const caKey = newKey();
  const ca = await sign(caSubject, caKey.publicKey, caKey.privateKey, now, [
    new x509.BasicConstraintsExtension(true, undefined, true),
    new x509.KeyUsagesExtension(keyCertSign, true),
  ]);
  const file = (name: string) => join(folder, name);
  await writeFile(file("ca.crt"), ca);
  const issue = async (name: string, { subject, names = [] }: Subject): Promise<KeyFiles> => {
    const { publicKey, privateKey } = newKey();
    const certificate = await sign(subject, publicKey, caKey.privateKey, now, [
      new x509.KeyUsagesExtension(digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([serverAuth, clientAuth]),
      ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension([...names])] : []),
    ]);
    const files = { certificate: file(`${name}.crt`), key: file(`${name}.key`) };
    await writeFile(files.certificate, certificate);
    await writeFile(files.key, pem(privateKey), { mode: 0o600 });
    return files;
  };
  const accounts = newKey();
  const serviceAccounts = { publicKey: file("accounts.pub"), privateKey: file("accounts.key") };
  await writeFile(
    serviceAccounts.publicKey,
    accounts.publicKey.export({ type: "spki", format: "pem" }).toString(),
  );
  await writeFile(serviceAccounts.privateKey, pem(accounts.privateKey), { mode: 0o600 });
  return {
    ca: file("ca.crt"),
    apiServer: await issue("apiserver", { subject: "CN=kube-apiserver", names: apiServerNames(node.ip) }),
    kubeletServer: await issue("kubelet", {
      subject: `CN=${node.name}`,
      names: [
        { type: "ip", value: node.ip },
        { type: "dns", value: node.name },
      ],
    }),
    admin: await issue("admin", { subject: "O=system:masters, CN=admin" }),
    controllerManager: await issue("controller-manager", { subject: "CN=system:kube-controller-manager" }),
    scheduler: await issue("scheduler", { subject: "CN=system:kube-scheduler" }),
    node: await issue("node", { subject: `O=system:nodes, CN=system:node:${node.name}` }),
    serviceAccounts,
  };
}

function apiServerNames(nodeIp: string): x509.JsonGeneralName[] {
  const service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
  return [
    ...[nodeIp, "127.0.0.1", apiServiceAddress].map((value) => ({ type: "ip" as const, value })),
    ...service.map((value) => ({ type: "dns" as const, value })),
  ];
}

async function sign(
  subject: string,
  publicKey: KeyObject,
  caKey: KeyObject,
  now: number,
  extensions: x509.Extension[],
): Promise<string> {
  const certificate = await x509.X509CertificateGenerator.create({
    // Positive, as RFC 5280 asks.
    serialNumber: `01${randomBytes(15).toString("hex")}`,
    subject,
    issuer: caSubject,
    notBefore: new Date(now - cushionMs),
    notAfter: new Date(now + ttlMs),
    publicKey: publicKey.toCryptoKey(algorithm, true, ["verify"]),
    signingKey: caKey.toCryptoKey(algorithm, true, ["sign"]),
    signingAlgorithm: algorithm,
    extensions,
  });
  return `${certificate.toString("pem")}\n`;
}

function newKey() {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

function pem(key: KeyObject): string {
  // SEC 1, the form that the service accounts' signer knows.
  return key.export({ type: "sec1", format: "pem" }).toString();
}
