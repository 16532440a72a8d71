// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sysfs finds devices where the Linux kernel shows them: PCI display
// controllers, network controllers with their SR-IOV virtual functions, and
// NVMe drives.
//
//	<root>/sys/bus/pci/devices/*  ─► function ─► display │
//	   class, vendor, driver,                   network  ├─► inventory.Device
//	   physfn, virtfn*, numa_node               nvme     │
//
// The root is any folder, so that tests and containers bring their own tree.
// Nothing is written, and only the /dev names of devices are made up: whether
// they exist is not looked at.
//
// # What becomes of a PCI function
//
//	class 03xxxx  type gpu     device nodes /dev/dri/*
//	class 02xxxx  type nic     device nodes /dev/infiniband/uverbs*
//	  a VF of it  type nic-vf  the same, and its network interface (CDI 1.1.0)
//	class 0108xx  type nvme    device nodes /dev/nvme0, /dev/nvme0n1, …
//
// A function that vfio-pci drives has the nodes of its IOMMU group instead. A
// function that no driver drives is unhealthy, and so is an NVMe controller
// that is not live.
//
// A NIC and its virtual functions share a counter set: whoever gets the NIC
// gets all of it, and the virtual functions go only as long as the NIC is free.
//
// # Attributes
//
// The standard ones pciBusID, pcieRoot and numaNode come from the topology of
// the record. Besides, in the domain of the driver: vendorID, deviceID,
// kernelDriver; for networks interface, rdmaDevice, totalVFs, physicalFunction,
// virtualFunction; for NVMe model, serial, firmware, and hostUse if there are
// partitions, or devices made of the drive. NVMe drives have the capacity size.
package sysfs
