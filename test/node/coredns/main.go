// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Coredns is the name server of test/node's cluster: CoreDNS with the few plugins that
// its Corefile names. With all of them it would take several times as long to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which plugins are asked, whatever theirs in the Corefile is.
	dnsserver.Directives = []string{"health", "ready", "errors", "cache", "loadbalance", "kubernetes"}
	coremain.Run()
}
