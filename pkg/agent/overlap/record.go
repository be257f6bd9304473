// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package overlap

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// recorder is a client for one deployment of a component of Gardener. It keeps what the component writes and does not
// let it through. What a component does beyond that (deleting, listing) is refused.
type recorder struct {
	scheme *runtime.Scheme

	lock    sync.Mutex
	objects map[schema.GroupVersionKind]map[client.ObjectKey]client.Object
}

var _ client.Client = &recorder{}

func newRecorder() *recorder {
	return &recorder{scheme: kubernetes.SeedScheme,
		objects: map[schema.GroupVersionKind]map[client.ObjectKey]client.Object{}}
}

// Record lets the function make components of the botanist that write nothing into the seed but the secrets of the
// secrets manager. What they write otherwise can be read from the client that is returned, by name. It must not be
// called while tasks of the botanist run; see NewComponents.
func Record(b *botanist.Botanist, construct func() error) (client.Reader, error) {
	r := newRecorder()
	if err := record(b, r, construct); err != nil {
		return nil, err
	}
	return r, nil
}

func record(b *botanist.Botanist, r *recorder, construct func() error) error {
	seed := b.SeedClientSet
	defer func() { b.SeedClientSet = seed }()
	b.SeedClientSet = recording{Interface: seed, recorder: r}
	return construct()
}

// managed returns the objects of the ManagedResource that was written.
func (r *recorder) managed(ctx context.Context, namespace, name string) ([]client.Object, error) {
	objects, err := managedresources.GetObjects(ctx, r, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("failed to read back what Gardener's component wrote: %w", err)
	}
	return objects, nil
}

func (r *recorder) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	gvk, err := r.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	found, ok := r.objects[gvk][key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.String())
	}
	to, from := reflect.ValueOf(object).Elem(), reflect.ValueOf(found.DeepCopyObject()).Elem()
	if to.Type() != from.Type() {
		return fmt.Errorf("failed to read %s as %s: it was written as %s", key, to.Type(), from.Type())
	}
	to.Set(from)
	return nil
}

func (r *recorder) keep(object client.Object) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	gvk, err := r.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	if r.objects[gvk] == nil {
		r.objects[gvk] = map[client.ObjectKey]client.Object{}
	}
	r.objects[gvk][client.ObjectKeyFromObject(object)] = object.DeepCopyObject().(client.Object)
	return nil
}

func (r *recorder) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return r.keep(object)
}

func (r *recorder) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	return r.keep(object)
}

func (r *recorder) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return r.keep(object)
}

var errNotRecorded = errors.New("a component that is only to be recorded may not do this")

func (r *recorder) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errNotRecorded
}

func (r *recorder) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errNotRecorded
}

func (r *recorder) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errNotRecorded
}

func (r *recorder) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotRecorded
}

func (r *recorder) Status() client.SubResourceWriter { return refused{} }

func (r *recorder) SubResource(string) client.SubResourceClient { return refused{} }

func (r *recorder) Scheme() *runtime.Scheme { return r.scheme }

func (r *recorder) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

func (r *recorder) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, r.scheme)
}

func (r *recorder) IsObjectNamespaced(runtime.Object) (bool, error) { return false, errNotRecorded }

// refused refuses all writes of subresources.
type refused struct{}

func (refused) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errNotRecorded
}

func (refused) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errNotRecorded
}

func (refused) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errNotRecorded
}

func (refused) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errNotRecorded
}

func (refused) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotRecorded
}

// recording is the access to a seed with a recorder in place of its client.
type recording struct {
	kubernetes.Interface
	recorder *recorder
}

func (r recording) Client() client.Client { return r.recorder }
