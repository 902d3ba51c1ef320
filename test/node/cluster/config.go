// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed files
var files embed.FS

// render returns one of the files with the values of this cluster.
func render(name string, v values) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeConfigs writes what the programs are configured with.
func (l layout) writeConfigs(v values) error {
	var errs []error
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "kube-proxy.yaml", "manifests.yaml"} {
		content, err := render(name, v)
		errs = append(errs, err, os.WriteFile(filepath.Join(l.State, name), content, 0o600))
	}
	network, err := cniNetwork(filepath.Join(l.State, "cni", "addresses"))
	errs = append(errs, err, os.WriteFile(filepath.Join(l.State, "cni", "conf", "10-bridge.conflist"), network, 0o600))
	for _, name := range v.Volumes {
		// Any user of a pod must be able to write: a hostPath volume has no configurable
		// owner. Chmod restores what the umask removed.
		dir := filepath.Join(v.VolumeDir, name)
		errs = append(errs, os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// cniNetwork is how a pod is connected: to our bridge, without address translation.
func cniNetwork(addresses string) ([]byte, error) {
	type object = map[string]any
	return json.MarshalIndent(object{
		"cniVersion": "0.4.0",
		"name":       "e2e",
		"plugins": []any{object{
			"type": "bridge", "bridge": bridge,
			"isGateway": true, "ipMasq": false,
			// A pod may reach itself through a Service.
			"hairpinMode": true,
			"ipam": object{
				"type": "host-local", "dataDir": addresses,
				"ranges": []any{[]any{object{"subnet": podNetwork, "gateway": bridgeAddress}}},
				"routes": []any{object{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
}
