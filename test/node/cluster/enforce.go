// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/netpol"
)

// EnforceCommand is the command of this program that [Up] starts as a process of the
// cluster, with a kubeconfig.
const EnforceCommand = "enforce"

// Enforce has the node enforce NetworkPolicies until ctx ends. The rules that hold are
// beside the kubeconfig.
func Enforce(ctx context.Context, kubeconfig string) error {
	log := zap.New(zap.WriteTo(os.Stderr))
	ctrl.SetLogger(log)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.Proxy = noProxy
	file := filepath.Join(filepath.Dir(kubeconfig), "network-policies.nft")
	return netpol.Enforce(logr.NewContext(ctx, log), config, func(ctx context.Context, rules string) error {
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			return fmt.Errorf("writing the rules: %w", err)
		}
		_, err := host.Run(ctx, "nft", "-f", file)
		return err
	})
}
