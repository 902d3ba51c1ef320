// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

// LimitParts lowers the number of parts that an upload may have, which would
// need 50 GB to be reached otherwise.
func (s *Store) LimitParts(n int) { s.maxParts = n }
