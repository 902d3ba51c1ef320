// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const (
	allocated = `"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],
		"ipFamilyPolicy":"SingleStack","healthCheckNodePort":30100,"ports":[
		{"name":"a","port":80,"protocol":"TCP","nodePort":30080},
		{"name":"b","port":80,"protocol":"UDP","nodePort":30081},
		{"name":"c","port":81,"nodePort":30082}]`
	none = `"type":"LoadBalancer","ipFamilyPolicy":"SingleStack","ports":[
		{"name":"a","port":80,"protocol":"TCP"},{"name":"b","port":80,"protocol":"UDP"},{"name":"c","port":81}]`
)

func service(metadata, spec string) string {
	return fmt.Sprintf(`{"metadata":{"name":"s","namespace":"a"%s},"spec":{%s},"status":{"loadBalancer":{}}}`, metadata, spec)
}

func applied(manifest string) string {
	return fmt.Sprintf(`,"annotations":{"kubectl.kubernetes.io/last-applied-configuration":%q}`, manifest)
}

func TestServiceAction_Execute(t *testing.T) {
	want := func(metadata, spec string) string {
		return fmt.Sprintf(`{"metadata":{"name":"s","namespace":"a"%s},"spec":{%s}}`, metadata, spec)
	}
	both := func(spec string) Case {
		return Case{Archived: service("", spec), Want: want("", spec)}
	}
	cases := map[string]Case{
		"all that was allocated goes": {Archived: service("", allocated), Want: want("", none)},
		"preserveNodePorts": {
			Archived: service("", allocated), Restore: itemaction.RestoreContext{PreserveNodePorts: true},
			Want: want("", `"type":"LoadBalancer","ipFamilyPolicy":"SingleStack","healthCheckNodePort":30100,"ports":[
				{"name":"a","port":80,"protocol":"TCP","nodePort":30080},
				{"name":"b","port":80,"protocol":"UDP","nodePort":30081},{"name":"c","port":81,"nodePort":30082}]`),
		},
		"headless": {
			Archived: service("", `"clusterIP":"None","clusterIPs":["None"],"ipFamilies":["IPv4"],"ports":[{"port":80}]`),
			Want:     want("", `"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]`),
		},
		"ExternalName": both(`"type":"ExternalName","externalName":"example.org"`),
		"addresses set by a user are kept": {
			Archived: service("", `"clusterIP":"10.0.0.1","loadBalancerIP":"1.2.3.4","externalIPs":["1.2.3.5"]`),
			Want:     want("", `"loadBalancerIP":"1.2.3.4","externalIPs":["1.2.3.5"]`),
		},
		"finalizer of a load balancer": {
			Archived: service(`,"finalizers":["service.kubernetes.io/load-balancer-cleanup","x/y"]`, ``),
			Want:     want(`,"finalizers":["x/y"]`, ``),
		},
	}
	for name, tc := range cases {
		tc.Resource = schema.GroupVersionResource{Version: "v1", Resource: "services"}
		cases[name] = tc
	}
	RunCases(t, NewServiceAction(), cases)
}

func TestFindExplicitFields(t *testing.T) {
	const manifest = `{"spec":{"healthCheckNodePort":30100,"ipFamilies":["IPv4"],"ports":[
		{"port":80,"nodePort":30080},{"port":80,"protocol":"UDP"},{"port":81,"protocol":"TCP","nodePort":30082}]}}`
	const managed = `,"managedFields":[
		{"manager":"helm","operation":"Update","fieldsV1":{"f:spec":{"f:type":{},"f:healthCheckNodePort":{},"f:ipFamilies":{},
		"f:ports":{".":{},
			"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{},"f:port":{}},
			"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:port":{}}}}}},
		{"manager":"x","operation":"Apply","fieldsV1":{"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{"f:nodePort":{}}}}}},
		{"manager":"y","subresource":"status","fieldsV1":{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{"f:nodePort":{}}}}}}]`
	const stated = `"type":"LoadBalancer","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","healthCheckNodePort":30100,"ports":[
		{"name":"a","port":80,"protocol":"TCP","nodePort":30080},{"name":"b","port":80,"protocol":"UDP"},
		{"name":"c","port":81,"nodePort":30082}]`
	cases := map[string]Case{
		"by kubectl apply": {
			Archived: service(applied(manifest), allocated),
			Want:     `{"metadata":{"name":"s","namespace":"a"` + applied(manifest) + `},"spec":{` + stated + `}}`,
		},
		"by another client": {
			Archived: service(managed, allocated),
			Want:     `{"metadata":{"name":"s","namespace":"a"},"spec":{` + stated + `}}`,
		},
		"by kubectl apply, before the port was renumbered": {
			Archived: service(applied(`{"spec":{"ports":[{"name":"a","port":8080,"nodePort":30080},{"name":"c","port":8081},{"port":9090,"nodePort":30081}]}}`), allocated),
			Want: `{"metadata":{"name":"s","namespace":"a"` +
				applied(`{"spec":{"ports":[{"name":"a","port":8080,"nodePort":30080},{"name":"c","port":8081},{"port":9090,"nodePort":30081}]}}`) +
				`},"spec":{"type":"LoadBalancer","ipFamilyPolicy":"SingleStack","ports":[
				{"name":"a","port":80,"protocol":"TCP","nodePort":30080},{"name":"b","port":80,"protocol":"UDP"},{"name":"c","port":81}]}}`,
		},
		"by kubectl apply, without a name": {
			Archived: service(applied(`{"spec":{"ports":[{"port":8080,"nodePort":30080}]}}`), `"ports":[{"port":80,"nodePort":30080}]`),
			Want:     `{"metadata":{"name":"s","namespace":"a"` + applied(`{"spec":{"ports":[{"port":8080,"nodePort":30080}]}}`) + `},"spec":{"ports":[{"port":80,"nodePort":30080}]}}`,
		},
		"an annotation that is no JSON states nothing": {
			Archived: service(applied(`{"spec":`), allocated),
			Want:     `{"metadata":{"name":"s","namespace":"a"` + applied(`{"spec":`) + `},"spec":{` + none + `}}`,
		},
		"zero is no choice": {
			Archived: service(applied(`{"spec":{"ipFamilies":[],"healthCheckNodePort":0,"ports":[{"port":80,"nodePort":0}]}}`), allocated),
			Want: `{"metadata":{"name":"s","namespace":"a"` +
				applied(`{"spec":{"ipFamilies":[],"healthCheckNodePort":0,"ports":[{"port":80,"nodePort":0}]}}`) + `},"spec":{` + none + `}}`,
		},
	}
	for name, tc := range cases {
		tc.Resource = schema.GroupVersionResource{Version: "v1", Resource: "services"}
		cases[name] = tc
	}
	RunCases(t, NewServiceAction(), cases)
}
