// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"context"
	"strings"

	"google.golang.org/grpc"
)

// The names of call attributes that travel beside the messages, as gRPC metadata,
// because Velero's messages have no fields for them. Asynchronous item actions get them
// in the same way. A plugin that does not know them ignores them.
const (
	// MetadataCall has the ID of the call, like ExecuteRequest.call_id for hooks.
	MetadataCall = "grapnel-call"
	// MetadataKey has the UID of the run that the call belongs to.
	MetadataKey = "grapnel-key"
	// MetadataParameters has the parameters of the action, a JSON object of strings.
	MetadataParameters = "grapnel-parameters-bin"
)

// StackType is the type URL of the detail of a gRPC status that has the stack of an error.
// Its message is Stack of package grapnel/velero/v1.
const StackType = "type.googleapis.com/generated.Stack"

// veleroServices maps the names of Velero's services in this module to their names on the
// wire. The names differ because one program must be able to link both; the messages are
// the same.
func veleroServices() map[string]string {
	return map[string]string{
		"grapnel.velero.v1.PluginLister":                 "generated.PluginLister",
		"grapnel.backupitemaction.v1.BackupItemAction":   "generated.BackupItemAction",
		"grapnel.backupitemaction.v2.BackupItemAction":   "v2.BackupItemAction",
		"grapnel.restoreitemaction.v1.RestoreItemAction": "generated.RestoreItemAction",
		"grapnel.restoreitemaction.v2.RestoreItemAction": "v2.RestoreItemAction",
		"grapnel.deleteitemaction.v1.DeleteItemAction":   "generated.DeleteItemAction",
		"grapnel.itemblockaction.v1.ItemBlockAction":     "v1.ItemBlockAction",
		"grapnel.objectstore.v1.ObjectStore":             "generated.ObjectStore",
	}
}

// RegisterVelero registers a service under the name that Velero gives it. It panics if
// Velero has no such service.
func RegisterVelero(r grpc.ServiceRegistrar, desc *grpc.ServiceDesc, implementation any) {
	name, ok := veleroServices()[desc.ServiceName]
	if !ok {
		panic("Velero has no service " + desc.ServiceName)
	}
	renamed := *desc
	renamed.ServiceName = name
	r.RegisterService(&renamed, implementation)
}

// VeleroConn returns a connection for clients of Velero's services. It translates method
// names to the names on the wire.
func VeleroConn(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return &veleroConn{ClientConnInterface: conn, services: veleroServices()}
}

type veleroConn struct {
	grpc.ClientConnInterface
	services map[string]string
}

// Invoke makes a call.
func (c *veleroConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, c.toWireMethod(method), args, reply, opts...)
}

// NewStream starts a streaming call.
func (c *veleroConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(ctx, desc, c.toWireMethod(method), opts...)
}

// toWireMethod translates "/service/method".
func (c *veleroConn) toWireMethod(method string) string {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if wire, ok := c.services[service]; ok {
		return "/" + wire + "/" + name
	}
	return method
}
