// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

// LimitParts lowers the number of parts that an upload may have. Reaching the real limit
// would take 50 GB.
func (s *Store) LimitParts(n int) { s.maxParts = n }
