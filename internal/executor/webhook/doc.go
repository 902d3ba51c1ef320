// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook runs hook actions that live behind an HTTPS endpoint.
//
// An [Executor] stands for one action at one URL. Every call is one POST over a
// connection of its own, so that a changed Secret counts from the next call on, and
// nothing is left open between two calls. What goes over the wire is written down for
// the authors of endpoints in docs/plugins/webhook.md.
//
//	options.go      what an Executor is made of, and what is refused at once
//	webhook.go      one attempt, from the call to the answer
//	request.go      the call as JSON
//	response.go     the answer: what each status means, limits
//	credentials.go  client certificate and token, read for each call
//	dial.go         the connection: name, address, TLS
//	address.go      which addresses are never called
//	failure.go      what went wrong, in words for people
//
// How the outcome reads in the terms of package executor:
//
//	200, 202; 429 and 503 with Retry-After     an Answer
//	no connection, no trust, lost connection,
//	5xx, 429 without Retry-After               Unreachable
//	no answer before the deadline              Timeout
//	3xx, 4xx, an answer that breaks the        Failed
//	contract
//	the call or its credentials cannot be      Invalid
//	used, or the address may not be called
//	ctx cancelled                              Interrupted
//
// The endpoint is trusted as far as its certificate goes, and no further: whatever it
// answers is bounded, redacted and checked. The URL comes from the administrator alone;
// nothing of a Backup or Restore becomes part of it.
//
// It is NOT the place for retries, and does not know where Secrets are.
package webhook
