// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Pause is the process that keeps a pod's namespaces: it waits until it gets a signal.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	<-end
}
