// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook runs hook actions behind an HTTPS endpoint.
//
// An [Executor] stands for one action at one URL. Every call is one POST over a connection of its
// own, so a changed Secret applies to the next call, and nothing stays open between two calls.
// The protocol is documented for the authors of endpoints in docs/plugins/webhook.md.
//
//	options.go      the configuration of an Executor, and what is rejected at once
//	webhook.go      one attempt, from the call to the answer
//	request.go      the call as JSON
//	response.go     the answer: what each status means, limits
//	credentials.go  client certificate and token, read for each call
//	dialer.go       the connection: name and address
//	address.go      which addresses are never called
//	failure.go      errors in words for users
//
// The results in the terms of package executor:
//
//	200, 202; 429 and 503 with Retry-After     an Answer
//	no connection, no trust, lost connection,
//	5xx, 429 without Retry-After               Unreachable
//	no answer before the deadline              Timeout
//	3xx, 4xx, an answer that breaks the        Failed
//	contract
//	the call or its credentials cannot be      Invalid
//	used, or the address may not be called
//	ctx canceled                               Interrupted
//
// The endpoint is trusted as far as its certificate goes, and no further: every answer is
// bounded, redacted and validated. The URL comes from the administrator alone; no part of it
// comes from a Backup or Restore.
//
// Retries do NOT belong here, and the package does not know where Secrets are.
package webhook
