// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"slices"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// verdict is what a script answers.
type verdict struct{ status, message string }

// askArgoCD runs a health check on an object as Argo CD does, and checks that Argo CD would
// accept the answer: util/lua of github.com/argoproj/argo-cd opens the libraries package,
// base and table, and two functions of os, which are not there at all here; it sets obj,
// waits for one second, and reads status and message of the table that is returned. It opens
// the other libraries only if an administrator sets useOpenLibs:
// https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks
func askArgoCD(t *testing.T, script string, object map[string]any) verdict {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage}, // it has to be the first
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
	} {
		call := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the machine may be busy
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns a %s, Argo CD wants a table", state.Get(-1).Type())
	}
	said := verdict{status: lua.LVAsString(answer.RawGetString("status")), message: lua.LVAsString(answer.RawGetString("message"))}
	known := []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}
	if !slices.Contains(known, said.status) {
		t.Fatalf("the script answers %q, which Argo CD does not know", said.status)
	}
	return said
}

// luaValue turns a value of an unstructured object into one of Lua. Numbers are int64, as in
// what a controller reads.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		list := state.NewTable()
		for _, item := range v {
			list.Append(luaValue(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	}
	return lua.LNil
}
