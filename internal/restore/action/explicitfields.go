// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"strings"

	"github.com/go-json-experiment/json"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// portKey identifies a port of a Service.
type portKey struct {
	Port     int64  `json:"port"`
	Protocol string `json:"protocol"`
}

// toPortKey returns the key of an entry of spec.ports.
func toPortKey(entry map[string]any) portKey {
	protocol := Get[string](entry, "protocol")
	if protocol == "" {
		protocol = "TCP"
	}
	return portKey{Port: GetInt(entry, "port"), Protocol: protocol}
}

// explicitFields records which fields that Kubernetes can allocate were set by a user.
type explicitFields struct {
	nodePorts map[portKey]bool
	// appliedNames and appliedNumbers are the names of ports that kubectl applied with a node port,
	// and the node ports of those without a name. Velero finds them that way, also if the port
	// itself was changed since.
	appliedNames   map[string]bool
	appliedNumbers map[int64]bool

	healthCheck bool
	ipFamilies  bool
}

// findExplicitFields finds the fields that a user set in an archived Service.
func findExplicitFields(service map[string]any) explicitFields {
	by := explicitFields{nodePorts: map[portKey]bool{}, appliedNames: map[string]bool{}, appliedNumbers: map[int64]bool{}}
	by.addLastApplied(Get[string](service, "metadata", "annotations", lastApplied))
	for manager := range EachMap(service, "metadata", "managedFields") {
		if Get[string](manager, "subresource") == "" {
			by.addManagedFields(GetMap(manager, "fieldsV1", "f:spec"))
		}
	}
	return by
}

// addLastApplied adds the fields that kubectl applied. An annotation that cannot be parsed
// is ignored.
func (s *explicitFields) addLastApplied(annotation string) {
	var manifest map[string]any
	if annotation == "" || json.Unmarshal([]byte(annotation), &manifest) != nil {
		return
	}
	spec := GetMap(manifest, "spec")
	s.healthCheck = s.healthCheck || GetInt(spec, "healthCheckNodePort") != 0
	s.ipFamilies = s.ipFamilies || len(Get[[]any](spec, "ipFamilies")) > 0
	for entry := range EachMap(spec, "ports") {
		number, name := GetInt(entry, "nodePort"), Get[string](entry, "name")
		if number == 0 {
			continue
		}
		s.nodePorts[toPortKey(entry)] = true
		if name != "" {
			s.appliedNames[name] = true
		} else {
			s.appliedNumbers[number] = true
		}
	}
}

// hasNodePort reports whether a user set the node port of an entry of spec.ports.
func (s *explicitFields) hasNodePort(entry map[string]any) bool {
	name := Get[string](entry, "name")
	return s.nodePorts[toPortKey(entry)] || s.appliedNames[name] || name == "" && s.appliedNumbers[GetInt(entry, "nodePort")]
}

// addManagedFields adds the fields of the spec that a manager set. Fields allocated by the
// API server have no manager.
func (s *explicitFields) addManagedFields(spec map[string]any) {
	s.healthCheck = s.healthCheck || Has(spec, "f:healthCheckNodePort")
	s.ipFamilies = s.ipFamilies || Has(spec, "f:ipFamilies")
	for key := range GetMap(spec, "f:ports") {
		var which portKey
		name, isKey := strings.CutPrefix(key, "k:")
		if !isKey || !Has(spec, "f:ports", key, "f:nodePort") {
			continue
		}
		if json.Unmarshal([]byte(name), &which) == nil {
			s.nodePorts[which] = true
		}
	}
}
