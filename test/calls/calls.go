// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package calls lets tests see what a client is asked for, and refuse it. The functions that it returns are for
// interceptor.NewClient and for the builder of fake clients. They see every read and every write, whichever way it
// comes, so that no write goes unnoticed because a test has not thought of its verb; only watches pass unseen.
package calls

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Verb is what is done.
type Verb string

// The verbs.
const (
	Get         Verb = "get"
	List        Verb = "list"
	Create      Verb = "create"
	Update      Verb = "update"
	Patch       Verb = "patch"
	Apply       Verb = "apply"
	Delete      Verb = "delete"
	DeleteAllOf Verb = "delete all of"
)

// Call is a call of a client.
type Call struct {
	// Verb is what is done.
	Verb Verb
	// Subresource is what it is done to; empty for the object itself.
	Subresource string
	// Key is the object; empty for lists, collections and what is applied.
	Key client.ObjectKey
	// Object is the object or the list that the client was given, nil for what is applied. After the call it has the
	// answer.
	Object runtime.Object
	// DryRun reports that the call was to change nothing.
	DryRun bool
}

// Writes reports whether the call changes something.
func (c Call) Writes() bool { return c.Verb != Get && c.Verb != List && !c.DryRun }

// Refuse answers calls of the verbs with the error, and lets all others pass.
func Refuse(answer error, verbs ...Verb) interceptor.Funcs {
	return Before(func(call Call) error {
		if slices.Contains(verbs, call.Verb) {
			return answer
		}
		return nil
	})
}

// Before calls the function before each call. An error is the answer to the call, which is not made then.
func Before(see func(call Call) error) interceptor.Funcs {
	return around(func(call Call, do func() error) error {
		if err := see(call); err != nil {
			return err
		}
		return do()
	})
}

// After calls the function after each call that succeeded.
func After(see func(call Call)) interceptor.Funcs {
	return around(func(call Call, do func() error) error {
		err := do()
		if err == nil {
			see(call)
		}
		return err
	})
}

// around has every call made by the function.
func around(run func(call Call, do func() error) error) interceptor.Funcs {
	funcs := aroundSubresources(run)
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
		opts ...client.GetOption) error {
		return run(Call{Verb: Get, Key: key, Object: object}, func() error { return c.Get(ctx, key, object, opts...) })
	}
	funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList,
		opts ...client.ListOption) error {
		return run(Call{Verb: List, Object: list}, func() error { return c.List(ctx, list, opts...) })
	}
	funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object,
		opts ...client.CreateOption) error {
		dry := (&client.CreateOptions{}).ApplyOptions(opts).DryRun
		return run(of(Create, object, dry), func() error { return c.Create(ctx, object, opts...) })
	}
	funcs.Update = func(ctx context.Context, c client.WithWatch, object client.Object,
		opts ...client.UpdateOption) error {
		dry := (&client.UpdateOptions{}).ApplyOptions(opts).DryRun
		return run(of(Update, object, dry), func() error { return c.Update(ctx, object, opts...) })
	}
	funcs.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
		opts ...client.PatchOption) error {
		dry := (&client.PatchOptions{}).ApplyOptions(opts).DryRun
		return run(of(Patch, object, dry), func() error { return c.Patch(ctx, object, patch, opts...) })
	}
	funcs.Apply = func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration,
		opts ...client.ApplyOption) error {
		return run(Call{Verb: Apply}, func() error { return c.Apply(ctx, object, opts...) })
	}
	funcs.Delete = func(ctx context.Context, c client.WithWatch, object client.Object,
		opts ...client.DeleteOption) error {
		dry := (&client.DeleteOptions{}).ApplyOptions(opts).DryRun
		return run(of(Delete, object, dry), func() error { return c.Delete(ctx, object, opts...) })
	}
	funcs.DeleteAllOf = func(ctx context.Context, c client.WithWatch, object client.Object,
		opts ...client.DeleteAllOfOption) error {
		return run(Call{Verb: DeleteAllOf, Object: object}, func() error { return c.DeleteAllOf(ctx, object, opts...) })
	}
	return funcs
}

func aroundSubresources(run func(call Call, do func() error) error) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceGet: func(ctx context.Context, c client.Client, name string, object, sub client.Object,
			opts ...client.SubResourceGetOption) error {
			return run(ofSubresource(Get, name, object, nil),
				func() error { return c.SubResource(name).Get(ctx, object, sub, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, object, sub client.Object,
			opts ...client.SubResourceCreateOption) error {
			dry := (&client.SubResourceCreateOptions{}).ApplyOptions(opts).DryRun
			return run(ofSubresource(Create, name, object, dry),
				func() error { return c.SubResource(name).Create(ctx, object, sub, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object,
			opts ...client.SubResourceUpdateOption) error {
			dry := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts).DryRun
			return run(ofSubresource(Update, name, object, dry),
				func() error { return c.SubResource(name).Update(ctx, object, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object,
			patch client.Patch, opts ...client.SubResourcePatchOption) error {
			dry := (&client.SubResourcePatchOptions{}).ApplyOptions(opts).DryRun
			return run(ofSubresource(Patch, name, object, dry),
				func() error { return c.SubResource(name).Patch(ctx, object, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, name string, object runtime.ApplyConfiguration,
			opts ...client.SubResourceApplyOption) error {
			return run(Call{Verb: Apply, Subresource: name},
				func() error { return c.SubResource(name).Apply(ctx, object, opts...) })
		},
	}
}

func of(verb Verb, object client.Object, dryRun []string) Call {
	return Call{Verb: verb, Key: client.ObjectKeyFromObject(object), Object: object, DryRun: len(dryRun) > 0}
}

func ofSubresource(verb Verb, name string, object client.Object, dryRun []string) Call {
	call := of(verb, object, dryRun)
	call.Subresource = name
	return call
}
