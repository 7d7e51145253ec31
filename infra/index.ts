import { Config } from "@pulumi/pulumi";
import { givenSettings } from "./given-settings.ts";
import { platform } from "./platform.ts";
import { readSettings } from "./read-settings.ts";

const config = new Config("gitea-dynamic-runner");
const { plain, secrets, mistakes } = givenSettings(config);
const settings = readSettings(plain, new Set(Object.keys(secrets)), mistakes);
const { names, images } = platform(settings, secrets);

export const namespace = names.namespace;
export const stream = names.stream;
export const facade = `https://${names.facadeHost}:${names.facadePort}`;
export const controllerImage = images.controller;
export const runnerImage = images.runner;
