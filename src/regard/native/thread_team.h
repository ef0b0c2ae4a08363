// Threads that help with one thread's work, if there are more threads than sentences.
//
// Work is split into pieces, and idle threads take the next one: a helper that the system has descheduled is waited for
// only if it has started a piece. Helpers spin between pieces, which follow each other within microseconds, and end
// with the team.

#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

class Team {
   public:
    explicit Team(int helpers) {
        try {
            for (int number = 0; number < helpers; ++number) threads.emplace_back([this] { help(); });
        } catch (const std::exception&) {
            // As many as can be started.
        }
    }

    ~Team() {
        over = true;
        for (auto& thread : threads) thread.join();
    }

    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Call work(piece) for all pieces, in any order and in parallel; return when all are done. It must not throw.
    template <class Work>
    void share(int pieces, const Work& work) {
        asked = &work;
        call = [](const void* what, int piece) { (*static_cast<const Work*>(what))(piece); };
        unfinished.store(pieces, std::memory_order_relaxed);
        ++round;
        open.store(uint64_t(round) << 32 | uint32_t(pieces), std::memory_order_release);
        while (take()) {}
        for (int turns = 0; unfinished.load(std::memory_order_acquire); ++turns) rest(turns);
    }

   private:
    static constexpr int PATIENCE = 1 << 10;  // iterations of spinning before yielding the core

    const void* asked = nullptr;
    void (*call)(const void*, int) = nullptr;
    uint32_t round = 0;
    std::vector<std::thread> threads;
    // The round number, and in the low bits how many pieces are left to take. Round numbers never repeat: a thread that
    // takes a piece by the value it read is in that round, which cannot end, nor its work change, before the piece is
    // done.
    alignas(64) std::atomic<uint64_t> open{0};
    alignas(64) std::atomic<int> unfinished{0};
    std::atomic<bool> over{false};

    // Run one piece, if there is one.
    bool take() {
        uint64_t seen = open.load(std::memory_order_acquire);
        do {
            if (!uint32_t(seen)) return false;
        } while (!open.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire));
        call(asked, int(uint32_t(seen)) - 1);
        unfinished.fetch_sub(1, std::memory_order_release);
        return true;
    }

    void help() {
        for (int turns = 0; !over.load(std::memory_order_relaxed); ++turns) {
            if (take()) turns = 0;
            rest(turns);
        }
    }

    static void rest(int turns) {
        if (turns >= PATIENCE) {
            std::this_thread::yield();
            return;
        }
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
};
