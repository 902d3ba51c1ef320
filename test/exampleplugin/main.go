// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command exampleplugin is a small plugin that shows how to write one; see
// README.md for what it does and how to try it.
//
//	main.go     what the plugin provides
//	freeze.go   the pairs example.io/freeze, around a backup and around a restore
//	subject.go  what is asked of the Backup or Restore
//	notify.go   the post action example.io/notify
//	control.go  the parameters that make the actions slow or fail in a demo
//	state.go    what the actions remember between calls
//
// It imports nothing of Grapnel but the SDK.
package main

import (
	"os"

	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	postrestorev1 "github.com/grapnel-dev/grapnel/sdk/postrestoreaction/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	prerestorev1 "github.com/grapnel-dev/grapnel/sdk/prerestoreaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// The registered names.
const (
	nameFreeze = "example.io/freeze"
	nameNotify = "example.io/notify"
)

func main() {
	newServer(newState(os.Getenv("EXAMPLE_STATE_DIR"))).Serve()
}

// newServer registers the actions; they share the state.
func newServer(s *state) *serve.Server {
	return serve.New().
		RegisterPreBackupActionV1(nameFreeze, func() (prebackupv1.PreBackupAction, error) {
			return &freeze{state: s}, s.check()
		}).
		RegisterPostBackupActionV1(nameFreeze, func() (postbackupv1.PostBackupAction, error) {
			return &thaw{state: s}, s.check()
		}).
		RegisterPreRestoreActionV1(nameFreeze, func() (prerestorev1.PreRestoreAction, error) {
			return &freeze{state: s}, s.check()
		}).
		RegisterPostRestoreActionV1(nameFreeze, func() (postrestorev1.PostRestoreAction, error) {
			return &thaw{state: s}, s.check()
		}).
		RegisterPostBackupActionV1(nameNotify, func() (postbackupv1.PostBackupAction, error) {
			return &notify{state: s}, s.check()
		})
}
