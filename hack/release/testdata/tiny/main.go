// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Tiny stands for the programs of a release, which take minutes to compile. It has a dependency.
package main

import "sigs.k8s.io/yaml"

var version = "dev"

func main() {
	text, err := yaml.Marshal(version)
	if err != nil {
		panic(err)
	}
	print(string(text))
}
