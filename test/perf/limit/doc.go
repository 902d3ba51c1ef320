// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Limit measures what the API server and the disk allow, with plain HTTP. It uses only the
// credentials of Kubernetes' client libraries.
//
//	limit -kubeconfig FILE list /api/v1/configmaps /apis/apps/v1/deployments
//
// reads all objects of the collections with 1, 2, 4 and 8 workers, each page
// piped through gzip, and prints the best reading as JSON.
//
//	limit -kubeconfig FILE run <REQUEST.json
//
// does the requests and the writes of small backups.
//
//	limit -kubeconfig FILE send <REQUEST.json
//
// sends POSTs and GETs, one for each object.
//
//	limit call <REQUEST.json
//
// makes gRPC calls to a second process, which only answers. See
// test/perf/raw.
package main
