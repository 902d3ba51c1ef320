// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

// ObjectsPerListRequest is how many additional objects a LIST returns in the time of one request.
// Measured: 2.6 ms against 36 µs.
const ObjectsPerListRequest = 64

// ShouldListPerNamespace reports whether reading the rest of a LIST across all namespaces costs
// more than a request for each of the named ones. p is a page of that LIST. all is the number of
// namespaces of the cluster, among which objects are assumed to be distributed evenly; 0 if it is
// unknown, and then all remaining objects count as those of other namespaces.
func (p Page) ShouldListPerNamespace(named, all int) bool {
	if !p.First || named < 1 {
		return false // none is named, or the cost is already spent
	}
	elsewhere := p.Remaining
	if all > 0 {
		elsewhere = elsewhere * int64(all-named) / int64(all)
	}
	return elsewhere > int64(named)*ObjectsPerListRequest
}
