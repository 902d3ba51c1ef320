// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// inheritedEnvNames lists the variables that every child gets from this program. All
// others, including credentials and KUBECONFIG, must be listed for the plugin. The address
// of the API server is not secret, and Velero's plugins need it; the container decides
// which files with credentials a child can read.
func inheritedEnvNames() []string {
	return []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
}

// buildEnvironment returns the variables of a child: the few inherited ones, those for all
// plugins, and those of this plugin; later ones take precedence.
func buildEnvironment(lookup func(string) (string, bool), shared, own map[string]string) []string {
	all := map[string]string{}
	for _, name := range inheritedEnvNames() {
		if value, ok := lookup(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, shared)
	maps.Copy(all, own)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// validateEnvironment returns an error for a variable that cannot be passed or that would
// change the handshake.
func validateEnvironment(own map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(own)) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("the environment variable name %q is not allowed: remove it", name)
		case strings.Contains(own[name], "\x00"):
			return fmt.Errorf("the value of environment variable %q contains a zero byte: remove it", name)
		case name == "VELERO_PLUGIN" || strings.HasPrefix(name, "PLUGIN_"):
			return fmt.Errorf("the environment variable %q belongs to the plugin handshake: remove it", name)
		}
	}
	return nil
}
