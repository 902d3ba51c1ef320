// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documentedWords matches the constants that users see: each is
// a promise that production code uses it.
var documentedWords = regexp.MustCompile(`^(Reason|Condition|Annotation|Label|Finalizer|Event)[A-Z]`)

// TestConstants shows that production code uses every documented constant: a reason that
// nothing sets misleads its reader.
func TestConstants(t *testing.T) {
	declared := declaredConstants(t)
	used := usedConstants(t, "../../controllers", "../../internal", "../../main.go")
	if len(declared) < 100 {
		t.Fatalf("found only %d constants", len(declared))
	}
	for name := range declared {
		if !used[name] {
			t.Errorf("no production code uses %s: use it, or remove it", name)
		}
	}
}

// declaredConstants returns the names of the documented constants of this package.
func declaredConstants(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	walkSources(t, ".", func(file *ast.File) {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				for _, ident := range spec.(*ast.ValueSpec).Names {
					if documentedWords.MatchString(ident.Name) {
						names[ident.Name] = true
					}
				}
			}
		}
	})
	return names
}

// usedConstants returns the constants of this package that the given sources use.
func usedConstants(t *testing.T, roots ...string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, root := range roots {
		walkSources(t, root, func(file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "v1alpha1" {
						names[selector.Sel.Name] = true
					}
				}
				return true
			})
		})
	}
	return names
}

// walkSources parses every non-test source file below root.
func walkSources(t *testing.T, root string, visit func(*ast.File)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
