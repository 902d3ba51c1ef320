// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Protogen generates the Go code of the plugin protocol:
//
//	protogen -plugins DIR ROOT
//
// It compiles every .proto file below ROOT, which is also the import path, and
// hands them to protoc-gen-go and protoc-gen-go-grpc of DIR, as `buf generate`
// does with sdk/proto/buf.gen.yaml; the Go files land beside their .proto files.
// Generated files whose .proto no longer exists are removed.
//
// It exists because it needs nothing but a small Go module: no protoc, which is
// not a Go program, and not all of buf.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	plugins := flag.String("plugins", "", "directory with protoc-gen-go and protoc-gen-go-grpc")
	flag.Parse()
	if flag.NArg() != 1 || *plugins == "" {
		fmt.Fprintln(os.Stderr, "usage: protogen -plugins DIR ROOT")
		os.Exit(2)
	}
	if err := run(context.Background(), *plugins, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plugins, root string) error {
	sources, err := find(root, ".proto")
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("no .proto file below %s", root)
	}
	request, err := compile(ctx, root, sources)
	if err != nil {
		return err
	}
	made := map[string]bool{}
	for _, name := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		files, err := generate(ctx, filepath.Join(plugins, name), request)
		if err != nil {
			return fmt.Errorf("running %s: %w", name, err)
		}
		for _, file := range files {
			made[file.GetName()] = true
			path := filepath.Join(root, filepath.FromSlash(file.GetName()))
			if err := os.WriteFile(path, []byte(joinPackageComment(file.GetContent())), 0o644); err != nil {
				return err
			}
		}
	}
	return removeStale(root, made)
}

// packageClause matches the comment of a .proto file's package and the package clause. protoc-gen-go
// separates the two by an empty line.
var packageClause = regexp.MustCompile(`(?m)^((?://.*\n)+)\npackage (\w+)$`)

// joinPackageComment makes the comment of a .proto file's package the package comment of the
// messages. The file with the service keeps it apart: a package has one package comment.
func joinPackageComment(content string) string {
	if strings.Contains(content, "protoc-gen-go-grpc. DO NOT EDIT.") {
		return content
	}
	return packageClause.ReplaceAllStringFunc(content, func(clause string) string {
		if strings.Contains(clause, "DO NOT EDIT.") { // the package has no comment
			return clause
		}
		return packageClause.ReplaceAllString(clause, "// Package $2 is the generated code of its .proto file.\n//\n${1}package $2")
	})
}

// find lists the files below root with the given ending, relative to it and with
// slashes, in lexical order.
func find(root, ending string) ([]string, error) {
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.HasSuffix(path, ending) {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

func compile(ctx context.Context, root string, sources []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		// Comments become the doc comments of the generated code.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, sources...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources,
		Parameter:      proto.String("paths=source_relative"),
	}
	seen := map[string]bool{}
	for _, file := range files {
		request.ProtoFile = appendWithImports(request.ProtoFile, seen, file)
	}
	return request, nil
}

// appendWithImports adds file after everything that it imports: the order that
// plugins are promised.
func appendWithImports(
	all []*descriptorpb.FileDescriptorProto, seen map[string]bool, file protoreflect.FileDescriptor,
) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return all
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		all = appendWithImports(all, seen, file.Imports().Get(i).FileDescriptor)
	}
	return append(all, protoutil.ProtoFromFileDescriptor(file))
}

func generate(
	ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest,
) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response.File, nil
}

func removeStale(root string, made map[string]bool) error {
	present, err := find(root, ".pb.go")
	if err != nil {
		return err
	}
	for _, path := range present {
		if made[path] {
			continue
		}
		if err := os.Remove(filepath.Join(root, filepath.FromSlash(path))); err != nil {
			return err
		}
	}
	return nil
}
