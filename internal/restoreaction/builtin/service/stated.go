// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// port is what tells the ports of a Service apart.
type port struct {
	Port     int64  `json:"port"`
	Protocol string `json:"protocol"`
}

// portOf returns what tells an entry of spec.ports from the others.
func portOf(entry map[string]any) port {
	protocol := field.Get[string](entry, "protocol")
	if protocol == "" {
		protocol = "TCP"
	}
	return port{Port: field.Int(entry, "port"), Protocol: protocol}
}

// stated says which fields that Kubernetes fills in by itself were somebody's
// choice.
type stated struct {
	nodePorts   map[port]bool
	healthCheck bool
	ipFamilies  bool
}

// statedIn finds what was stated about an archived Service.
func statedIn(service map[string]any) stated {
	by := stated{nodePorts: map[port]bool{}}
	by.applied(field.Get[string](service, "metadata", "annotations", lastApplied))
	for manager := range field.Maps(service, "metadata", "managedFields") {
		if field.Get[string](manager, "subresource") == "" {
			by.managed(field.Map(manager, "fieldsV1", "f:spec"))
		}
	}
	return by
}

// applied adds what kubectl applied. An annotation that cannot be read states
// nothing.
func (s *stated) applied(annotation string) {
	var manifest map[string]any
	if annotation == "" || json.Unmarshal([]byte(annotation), &manifest) != nil {
		return
	}
	spec := field.Map(manifest, "spec")
	s.healthCheck = s.healthCheck || field.Int(spec, "healthCheckNodePort") != 0
	s.ipFamilies = s.ipFamilies || len(field.Get[[]any](spec, "ipFamilies")) > 0
	for entry := range field.Maps(spec, "ports") {
		if field.Int(entry, "nodePort") != 0 {
			s.nodePorts[portOf(entry)] = true
		}
	}
}

// managed adds the fields of the spec that a manager set. What the API server
// allocated has no manager.
func (s *stated) managed(spec map[string]any) {
	s.healthCheck = s.healthCheck || field.Has(spec, "f:healthCheckNodePort")
	s.ipFamilies = s.ipFamilies || field.Has(spec, "f:ipFamilies")
	for key := range field.Map(spec, "f:ports") {
		var which port
		name, isKey := strings.CutPrefix(key, "k:")
		if !isKey || !field.Has(spec, "f:ports", key, "f:nodePort") {
			continue
		}
		if json.Unmarshal([]byte(name), &which) == nil {
			s.nodePorts[which] = true
		}
	}
}
