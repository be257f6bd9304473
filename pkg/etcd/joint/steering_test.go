// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	etcdfront "github.com/livecpm/livecpm/pkg/etcd/front"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
)

var _ joint.Front = (*etcdfront.Steering)(nil)
