#!/bin/bash
#SBATCH --nodes=4
# What public examples for EFA set: libfabric, the interfaces of the VPC, and what PyTorch reads.
export FI_LOG_LEVEL=1
export FI_PROVIDER=efa
export FI_EFA_USE_HUGE_PAGE=0
export FI_EFA_USE_DEVICE_RDMA=1
export FI_EFA_FORK_SAFE=1
export NCCL_DEBUG=INFO
export NCCL_PROTO=simple
export NCCL_SOCKET_IFNAME=en
export NCCL_ASYNC_ERROR_HANDLING=1
export NCCL_BUFFSIZE=8388608
export NCCL_P2P_NET_CHUNKSIZE=524288
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun -l torchrun train.py
