// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests config/components/monitoring: which alerts fire while something fails, and
// that the dashboard queries metrics that exist.
//
//	replay_test.go     replays recorded metrics, and evaluates the alerts, as Prometheus does
//	stories_test.go    the alerts that fire in each story
//	rules_test.go      the alerts themselves, and their runbooks
//	dashboard_test.go  the queries of the dashboard
//	metrics_test.go    the metrics that exist, with their labels
//	manifests_test.go  the API of the Prometheus Operator
//
// The files in testdata are metrics of operators, which the suite test/integration writes:
//
//	go test ./test/integration -ginkgo.label-filter=monitoring -update
//
// Without -update, the suite compares the names and labels in them with those of its operators.
//
// It is a separate module, because Prometheus is not part of the operator.
package monitoring
